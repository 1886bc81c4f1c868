// Implements reading and writing of files that hold one TensorProto.
#include "frontend/Import.h"
#include "frontend/Literals.h"

#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

namespace tenon {
using namespace frontend;

llvm::Optional<Tensor> readTensorProto(llvm::StringRef path, Diagnostics &diagnostics,
                                       std::string *name) {
  auto fail = [&](const std::string &why) {
    diagnostics.error(quoted(path) + " " + why);
    return llvm::None;
  };
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/false,
                                            /*RequiresNullTerminator=*/false);
  if (!buffer)
    return fail("cannot be read: " + buffer.getError().message());
  onnx::TensorProto proto;
  if (!parseMessage((*buffer)->getBuffer(), proto))
    return fail("is not a TensorProto");
  if (proto.data_type() == 0)
    return fail("holds no tensor (sequences and optionals are not supported)");
  std::string error;
  auto tensor = toTensor(proto, ExternalFolder(""), error);
  if (!tensor)
    return fail("cannot be read: " + error);
  if (name)
    *name = proto.name();
  return tensor;
}

bool writeTensorProto(llvm::StringRef path, const Tensor &tensor, llvm::StringRef name,
                      Diagnostics &diagnostics) {
  onnx::TensorProto proto;
  proto.set_name(name.str());
  fromTensor(tensor, proto);
  std::error_code code;
  llvm::raw_fd_ostream os(path, code);
  if (!code) {
    os << proto.SerializeAsString();
    os.close();
    code = os.error();
    os.clear_error();
  }
  if (code)
    diagnostics.error(quoted(path) + " cannot be written: " + code.message());
  return !code;
}

} // namespace tenon
