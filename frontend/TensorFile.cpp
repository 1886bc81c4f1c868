// Implements reading and writing of files that hold one TensorProto.
#include "frontend/Import.h"
#include "frontend/Literals.h"

#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

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
    return fail("holds no tensor");
  std::string error;
  auto tensor = toTensor(proto, ExternalFolder(""), error);
  if (!tensor)
    return fail("cannot be read: " + error);
  if (name)
    *name = proto.name();
  return tensor;
}

namespace {

/// Collects the TensorProtos of a SequenceProto or OptionalProto. Both have them in field 3 and
/// what contains further ones in field 5; ONNX's own data format has no generated classes here.
bool collectTensors(llvm::StringRef bytes, std::vector<std::string> &tensors, int depth) {
  constexpr uint32_t kTensors = 3, kSequences = 5;
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const uint8_t *>(bytes.data()),
                                            int(bytes.size()));
  while (const uint32_t tag = in.ReadTag()) {
    using google::protobuf::internal::WireFormatLite;
    if (WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_VARINT) {
      uint64_t ignored;
      if (!in.ReadVarint64(&ignored))
        return false;
      continue;
    }
    std::string field;
    uint32_t size;
    if (WireFormatLite::GetTagWireType(tag) != WireFormatLite::WIRETYPE_LENGTH_DELIMITED ||
        !in.ReadVarint32(&size) || !in.ReadString(&field, int(size)))
      return false;
    const int number = WireFormatLite::GetTagFieldNumber(tag);
    if (number == kTensors)
      tensors.push_back(std::move(field));
    else if (number == kSequences && (depth > 0 || !collectTensors(field, tensors, depth + 1)))
      return false;
  }
  return in.ConsumedEntireMessage();
}

} // namespace

llvm::Optional<std::vector<Tensor>> readContainerProto(llvm::StringRef path,
                                                       Diagnostics &diagnostics) {
  auto fail = [&](const std::string &why) {
    diagnostics.error(quoted(path) + " " + why);
    return llvm::None;
  };
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/false,
                                            /*RequiresNullTerminator=*/false);
  if (!buffer)
    return fail("cannot be read: " + buffer.getError().message());
  std::vector<std::string> messages;
  if ((*buffer)->getBufferSize() > size_t(INT32_MAX) ||
      !collectTensors((*buffer)->getBuffer(), messages, 0))
    return fail("is neither a sequence nor an optional of tensors");
  std::vector<Tensor> tensors;
  for (const std::string &message : messages) {
    onnx::TensorProto proto;
    std::string error = "damaged tensor";
    auto tensor =
        parseMessage(message, proto) ? toTensor(proto, ExternalFolder(""), error) : llvm::None;
    if (!tensor)
      return fail("cannot be read: " + error);
    tensors.push_back(*tensor);
  }
  return tensors;
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
