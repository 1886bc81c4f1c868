// Implements the .npy format, version 1.0 and 2.0 (reading) and 1.0 (writing).
#include "compiler/Npy.h"

#include "ir/NearFile.h"

#include "llvm/Support/ConvertUTF.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/MemoryBuffer.h"

#include <algorithm>
#include <cstring>

namespace tenon {
namespace {

struct Row {
  Element element;
  const char *code; // after the byte-order mark
};

/// The types that NumPy names itself.
constexpr Row kTypes[] = {{Element::Bool, "b1"}, {Element::I8, "i1"},   {Element::I16, "i2"},
                          {Element::I32, "i4"},  {Element::I64, "i8"},  {Element::U8, "u1"},
                          {Element::U16, "u2"},  {Element::U32, "u4"},  {Element::U64, "u8"},
                          {Element::F16, "f2"},  {Element::F32, "f4"},  {Element::F64, "f8"},
                          {Element::C64, "c8"},  {Element::C128, "c16"}};

constexpr char kMagic[] = "\x93NUMPY";

/// The text between the quotes or brackets after `key` in the header's dictionary.
llvm::StringRef field(llvm::StringRef header, llvm::StringRef key, char open, char close) {
  const size_t at = header.find(key);
  if (at == llvm::StringRef::npos)
    return {};
  llvm::StringRef rest = header.drop_front(at + key.size());
  const size_t first = rest.find(open);
  if (first == llvm::StringRef::npos)
    return {};
  rest = rest.drop_front(first + 1);
  return rest.take_front(rest.find(close));
}

/// Column-major data under `shape` into row-major order.
std::vector<uint8_t> toRowMajor(llvm::ArrayRef<uint8_t> in, llvm::ArrayRef<int64_t> shape,
                                size_t width) {
  std::vector<uint8_t> out(in.size());
  llvm::SmallVector<int64_t, 6> strides(shape.size()), index(shape.size(), 0);
  int64_t stride = 1;
  for (size_t d = 0; d < shape.size(); ++d)
    strides[d] = stride, stride *= shape[d];
  for (size_t i = 0; i < out.size() / width; ++i) {
    int64_t from = 0;
    for (size_t d = 0; d < shape.size(); ++d)
      from += index[d] * strides[d];
    memcpy(&out[i * width], &in[from * width], width);
    for (size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d])
        break;
      index[d] = 0;
    }
  }
  return out;
}

std::string header(llvm::StringRef descr, llvm::ArrayRef<int64_t> shape) {
  std::string dict = "{'descr': '" + descr.str() + "', 'fortran_order': False, 'shape': (";
  for (size_t i = 0; i < shape.size(); ++i)
    dict += (i ? ", " : "") + std::to_string(shape[i]);
  dict += shape.size() == 1 ? ",), }" : "), }";
  const size_t prefix = 10; // magic, version, length
  dict.append(63 - (prefix + dict.size()) % 64, ' ');
  dict += '\n';
  std::string out(kMagic, 6);
  out += '\1';
  out += '\0';
  out += char(dict.size() & 255);
  out += char(dict.size() >> 8);
  return out + dict;
}

/// Strings as NumPy's fixed-width UTF-32; invalid UTF-8 bytes become their Latin-1 characters.
std::string stringBytes(const Tensor &tensor) {
  std::vector<std::u32string> texts;
  size_t width = 1;
  for (const std::string &s : tensor.stringValues()) {
    std::u32string text;
    for (size_t i = 0; i < s.size();) {
      const auto c = static_cast<unsigned char>(s[i]);
      const size_t length = c < 0x80         ? 1
                            : (c >> 5) == 6  ? 2
                            : (c >> 4) == 14 ? 3
                            : (c >> 3) == 30 ? 4
                                             : 1;
      bool valid = c < 0x80 || length > 1;
      char32_t point = length == 1 ? c : c & (0x7f >> length);
      for (size_t k = 1; valid && k < length; ++k) {
        valid = i + k < s.size() && (static_cast<unsigned char>(s[i + k]) >> 6) == 2;
        if (valid)
          point = point << 6 | (static_cast<unsigned char>(s[i + k]) & 0x3f);
      }
      text += valid ? point : char32_t(c);
      i += valid ? length : 1;
    }
    width = std::max(width, text.size());
    texts.push_back(std::move(text));
  }
  std::string out = header("<U" + std::to_string(width), tensor.shape());
  for (std::u32string &text : texts) {
    text.resize(width, U'\0');
    for (char32_t c : text)
      for (int shift = 0; shift < 32; shift += 8)
        out += char(c >> shift & 255);
  }
  return out;
}

/// The elements that stringBytes wrote; NumPy fills them up with zeros.
Strings textElements(llvm::StringRef data, size_t width) {
  Strings values;
  for (; !data.empty(); data = data.drop_front(width * 4)) {
    std::string text;
    for (size_t i = 0; i < width; ++i) {
      const uint32_t point = llvm::support::endian::read32le(data.data() + i * 4);
      char bytes[4], *end = bytes;
      if (llvm::ConvertCodePointToUTF8(point, end))
        text.append(bytes, end);
    }
    values.push_back(llvm::StringRef(text).rtrim('\0').str());
  }
  return values;
}

} // namespace

llvm::Optional<Tensor> readNpy(llvm::StringRef path, Diagnostics &diagnostics) {
  auto buffer =
      llvm::MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (buffer)
    return parseNpy((*buffer)->getBuffer(), path, diagnostics);
  diagnostics.error("cannot read '" + path.str() + "': " + buffer.getError().message() +
                    nearFile(path));
  return llvm::None;
}

llvm::Optional<Tensor> parseNpy(llvm::StringRef bytes, llvm::StringRef path,
                                Diagnostics &diagnostics) {
  auto fail = [&](const std::string &what) {
    diagnostics.error("cannot read '" + path.str() + "': " + what);
    return llvm::None;
  };
  if (!bytes.startswith(llvm::StringRef(kMagic, 6)) || bytes.size() < 12)
    return fail("not a .npy file");
  const size_t lengthBytes = bytes[6] == 1 ? 2 : 4;
  size_t length = 0;
  for (size_t i = 0; i < lengthBytes; ++i)
    length |= size_t(static_cast<unsigned char>(bytes[8 + i])) << 8 * i;
  const size_t start = 8 + lengthBytes;
  if (length > bytes.size() - start)
    return fail("the header is cut short");
  llvm::StringRef head = bytes.substr(start, length), data = bytes.drop_front(start + length);

  llvm::StringRef descr = field(head, "'descr'", '\'', '\'');
  const Row *row = nullptr;
  if (descr.size() > 1 && (descr[0] == '<' || descr[0] == '|' || descr[0] == '='))
    row = std::find_if(std::begin(kTypes), std::end(kTypes),
                       [&](const Row &r) { return descr.drop_front() == r.code; });
  size_t letters = 0; // of text, in each element
  const bool isText = descr.startswith("<U") && !descr.drop_front(2).getAsInteger(10, letters) &&
                      letters > 0 && letters < data.size() + 1;
  if (!isText && (!row || row == std::end(kTypes)))
    return fail("element type '" + descr.str() +
                "' is not supported; save little-endian numbers or text");

  llvm::SmallVector<int64_t, 6> shape;
  llvm::SmallVector<llvm::StringRef, 6> extents;
  field(head, "'shape'", '(', ')').split(extents, ',', -1, /*KeepEmpty=*/false);
  int64_t count = 1;
  for (llvm::StringRef e : extents) {
    int64_t v;
    if (e.trim().empty())
      continue;
    if (e.trim().getAsInteger(10, v) || v < 0 || llvm::MulOverflow(count, v, count))
      return fail("the shape in its header is malformed");
    shape.push_back(v);
  }
  const size_t width = isText ? letters * 4 : bitWidth(row->element) / 8;
  if (count > int64_t(data.size() / width) || size_t(count) * width != data.size())
    return fail("expected " + std::to_string(count) + " elements of " + std::to_string(width) +
                " bytes, found " + std::to_string(data.size()) + " bytes");
  const size_t order = head.find("'fortran_order'");
  const bool columns = order != llvm::StringRef::npos &&
                       head.drop_front(order).split(':').second.ltrim().startswith("True");
  if (isText)
    return columns ? fail("text in column-major order is not supported")
                   : llvm::Optional<Tensor>(Tensor::strings(shape, textElements(data, letters)));
  auto *first = reinterpret_cast<const uint8_t *>(data.data());
  std::vector<uint8_t> values(first, first + data.size());
  if (columns)
    values = toRowMajor(values, shape, width);
  return Tensor(row->element, shape, std::move(values));
}

std::string npyBytes(const Tensor &tensor) {
  const Element e = tensor.element();
  if (e == Element::String)
    return stringBytes(tensor);
  const Row *row = std::find_if(std::begin(kTypes), std::end(kTypes),
                                [&](const Row &r) { return r.element == e; });
  std::string out;
  if (row != std::end(kTypes) || bitWidth(e) >= 8) {
    const std::string code =
        row != std::end(kTypes) ? row->code : "u" + std::to_string(bitWidth(e) / 8);
    out = header((code.back() == '1' ? "|" : "<") + code, tensor.shape());
    llvm::ArrayRef<uint8_t> bytes = tensor.bytes();
    out.append(reinterpret_cast<const char *>(bytes.data()), bytes.size());
    return out;
  }
  // Sub-byte types: one element to a byte, sign-extended for signed ones.
  const unsigned bits = bitWidth(e);
  out = header(isSignedInt(e) ? "|i1" : "|u1", tensor.shape());
  for (int64_t i = 0; i < tensor.size(); ++i) {
    int v = tensor.bytes()[i * bits / 8] >> (i * bits % 8) & ((1 << bits) - 1);
    if (isSignedInt(e) && v >> (bits - 1))
      v -= 1 << bits;
    out += char(v);
  }
  return out;
}

} // namespace tenon
