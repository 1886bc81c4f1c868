// Implements the conversion between TensorProto and Tensor.
#include "frontend/Literals.h"

#include "llvm/Support/MathExtras.h"

#include <cstring>

namespace tenon::frontend {
namespace {

std::string shapeText(llvm::ArrayRef<int64_t> dims) {
  std::string s = "[";
  for (size_t i = 0; i < dims.size() && i < 8; ++i)
    s += (i ? "," : "") + std::to_string(dims[i]);
  return s + (dims.size() > 8 ? ",…]" : "]");
}

/// How a type is stored in the typed fields: elements of `field` bytes each hold `perItem`
/// elements, or one element takes two items (complex numbers).
enum class Field { None, Float, Double, Int32, Int64, UInt64 };
Field typedField(Element e) {
  switch (e) {
  case Element::F32:
  case Element::C64: return Field::Float;
  case Element::F64:
  case Element::C128: return Field::Double;
  case Element::I64: return Field::Int64;
  case Element::U32:
  case Element::U64: return Field::UInt64;
  case Element::String: return Field::None;
  default: return Field::Int32;
  }
}

/// Copies `items` numbers into `bytes`, each cut to `width` bytes.
template <class Items> void narrow(const Items &items, size_t width, std::vector<uint8_t> &bytes) {
  bytes.resize(size_t(items.size()) * width);
  size_t at = 0;
  for (auto item : items) {
    std::memcpy(bytes.data() + at, &item, width); // little-endian host
    at += width;
  }
}

llvm::Optional<ExternalFolder::Pages> externalPages(const onnx::TensorProto &proto,
                                                    const ExternalFolder &folder, uint64_t expected,
                                                    std::string &error) {
  std::string location;
  uint64_t offset = 0, length = expected;
  for (const auto &entry : proto.external_data()) {
    llvm::StringRef value = entry.value();
    if (entry.key() == "location")
      location = entry.value();
    else if (entry.key() == "offset" || entry.key() == "length") {
      if (value.getAsInteger(10, entry.key() == "offset" ? offset : length)) {
        error = "external data has " + entry.key() + " " + quoted(value) + ", expected a number";
        return llvm::None;
      }
    }
  }
  if (length != expected) {
    error = "external data " + quoted(location) + " has length " + std::to_string(length) +
            ", expected " + std::to_string(expected) + " bytes";
    return llvm::None;
  }
  return folder.map(location, offset, expected, error);
}

} // namespace

llvm::Optional<int64_t> countElements(llvm::ArrayRef<int64_t> dims) {
  int64_t n = 1;
  bool empty = false;
  for (int64_t d : dims) {
    if (d < 0)
      return llvm::None;
    empty |= d == 0;
  }
  if (empty)
    return 0;
  for (int64_t d : dims)
    if (llvm::MulOverflow(n, d, n) || n > kElementLimit)
      return llvm::None;
  return n;
}

llvm::Optional<Element> toElement(int code, std::string &error) {
  if (auto e = elementFromOnnx(code))
    return e;
  error = code == 0 ? "has no element type" : "has unknown element type " + std::to_string(code);
  return llvm::None;
}

llvm::Optional<Tensor> toTensor(const onnx::TensorProto &proto, const ExternalFolder &folder,
                                std::string &error) {
  auto fail = [&](const std::string &why) {
    error = "tensor " + quoted(proto.name()) + " " + why;
    return llvm::None;
  };
  auto element = toElement(proto.data_type(), error);
  if (!element)
    return fail(error);
  llvm::SmallVector<int64_t, 6> shape(proto.dims().begin(), proto.dims().end());
  auto count = countElements(shape);
  if (!count)
    return fail("has the impossible shape " + shapeText(shape));
  if (proto.has_segment())
    return fail("is stored in segments, which is not supported");
  if (*element == Element::String) {
    if (proto.string_data_size() != *count)
      return fail("has " + std::to_string(proto.string_data_size()) + " strings, expected " +
                  std::to_string(*count));
    return Tensor::strings(shape, {proto.string_data().begin(), proto.string_data().end()});
  }

  const uint64_t size = uint64_t(byteSize(*element, *count));
  auto mismatch = [&](uint64_t found, uint64_t expected, const char *what) {
    return fail("of " + name(*element).str() + " and shape " + shapeText(shape) + " holds " +
                std::to_string(found) + " " + what + ", expected " + std::to_string(expected));
  };
  std::vector<uint8_t> bytes;
  if (proto.data_location() == onnx::TensorProto::EXTERNAL) {
    auto pages = externalPages(proto, folder, size, error);
    if (!pages)
      return fail("cannot be read: " + error);
    // A file may put numbers where the machine cannot read them in one piece.
    const auto place = reinterpret_cast<uintptr_t>(pages->bytes.data());
    if (pages->mapping && !isBool(*element) &&
        place % std::min<uintptr_t>(8, std::max(1u, bitWidth(*element) / 8)) == 0)
      return Tensor::mapped(*element, shape, pages->bytes, std::move(pages->mapping));
    bytes = pages->bytes.vec();
  } else if (proto.has_raw_data() && (!proto.raw_data().empty() || size == 0)) {
    if (proto.raw_data().size() != size)
      return mismatch(proto.raw_data().size(), size, "bytes");
    bytes.assign(proto.raw_data().begin(), proto.raw_data().end());
  } else {
    const bool complex = isComplex(*element);
    const unsigned bits = bitWidth(*element);
    const uint64_t items = complex ? uint64_t(*count) * 2 : bits < 8 ? size : uint64_t(*count);
    const size_t width = complex ? bits / 16 : bits < 8 ? 1 : bits / 8;
    auto take = [&](const auto &field) {
      if (uint64_t(field.size()) != items)
        return false;
      narrow(field, width, bytes);
      return true;
    };
    switch (typedField(*element)) {
    case Field::Float:
      if (!take(proto.float_data()))
        return mismatch(proto.float_data_size(), items, "numbers");
      break;
    case Field::Double:
      if (!take(proto.double_data()))
        return mismatch(proto.double_data_size(), items, "numbers");
      break;
    case Field::Int64:
      if (!take(proto.int64_data()))
        return mismatch(proto.int64_data_size(), items, "numbers");
      break;
    case Field::UInt64:
      if (!take(proto.uint64_data()))
        return mismatch(proto.uint64_data_size(), items, "numbers");
      break;
    case Field::Int32:
    case Field::None:
      if (!take(proto.int32_data()))
        return mismatch(proto.int32_data_size(), items, "numbers");
      break;
    }
  }
  if (isBool(*element))
    for (uint8_t &b : bytes)
      b = b != 0;
  return Tensor(*element, shape, std::move(bytes));
}

llvm::Optional<Tensor> toTensor(const onnx::SparseTensorProto &proto, const ExternalFolder &folder,
                                std::string &error) {
  auto fail = [&](const std::string &why) {
    error = "sparse tensor " + quoted(proto.values().name()) + " " + why;
    return llvm::None;
  };
  llvm::SmallVector<int64_t, 6> shape(proto.dims().begin(), proto.dims().end());
  auto count = countElements(shape);
  // Zeros are not stored, so that the file's size says nothing about the memory needed.
  constexpr int64_t kLargest = int64_t(1) << 28;
  if (!count || *count > kLargest)
    return fail("has the impossible shape " + shapeText(shape));
  auto values = toTensor(proto.values(), folder, error);
  if (!values)
    return llvm::None;
  auto indices = toTensor(proto.indices(), folder, error);
  if (!indices)
    return llvm::None;
  if (values->rank() != 1 || values->element() == Element::String ||
      indices->element() != Element::I64)
    return fail("needs a list of numbers and indices of i64");
  const bool flat = indices->rank() == 1;
  const int64_t n = values->size(), rank = int64_t(shape.size());
  if (indices->size() != (flat ? n : n * rank) || (!flat && indices->rank() != 2))
    return fail("has " + std::to_string(indices->size()) + " index elements for " +
                std::to_string(n) + " values");
  if (bitWidth(values->element()) < 8)
    return fail("has elements of less than a byte, which is not supported");
  Tensor dense(values->element(), shape);
  const size_t width = bitWidth(values->element()) / 8;
  uint8_t *out = dense.mutableBytes();
  for (int64_t i = 0; i < n; ++i) {
    int64_t at = flat ? indices->intAt(i) : 0;
    for (int64_t d = 0; !flat && d < rank; ++d) {
      const int64_t index = indices->intAt(i * rank + d);
      if (index < 0 || index >= shape[d])
        return fail("has an index outside its shape");
      at = at * shape[d] + index;
    }
    if (at < 0 || at >= *count)
      return fail("has an index outside its shape");
    std::memcpy(out + size_t(at) * width, values->bytes().data() + size_t(i) * width, width);
  }
  return dense;
}

void fromTensor(const Tensor &tensor, onnx::TensorProto &proto) {
  proto.set_data_type(onnxCode(tensor.element()));
  for (int64_t d : tensor.shape())
    proto.add_dims(d);
  if (tensor.element() == Element::String) {
    for (const std::string &s : tensor.stringValues())
      proto.add_string_data(s);
    return;
  }
  proto.set_raw_data(tensor.bytes().data(), tensor.bytes().size());
}

} // namespace tenon::frontend
