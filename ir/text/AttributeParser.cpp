// Implements the parser of attributes and literals. Sizes are checked before memory is taken.
#include "ir/text/AttributeParser.h"

#include "llvm/Support/MathExtras.h"

namespace tenon {
namespace {

constexpr int64_t kMaxBytes = int64_t(1) << 36;
/// A few characters may stand for any number of elements: what splat literals of one text may take.
constexpr int64_t kMaxSplatBytes = int64_t(1) << 30;

} // namespace

bool AttributeParser::ints(Ints &out) {
  return list([&] { return integer(out.emplace_back()); });
}

/// `lists [[…], …]`, `floats […]`, `dims […]` or `strings […]`: a list whose elements no bare list
/// could tell. None, without an error, where `kind` is none of these.
llvm::Optional<Attribute> AttributeParser::namedList(llvm::StringRef kind) {
  const auto parsed = [&](auto values, auto each) -> llvm::Optional<Attribute> {
    if (!list([&] { return each(values.emplace_back()); }))
      return llvm::None;
    return Attribute(std::move(values));
  };
  if (kind == "lists")
    return parsed(IntLists(), [&](Ints &v) { return ints(v); });
  if (kind == "floats")
    return parsed(Floats(), [&](double &v) {
      Number n;
      const bool found = number(n);
      v = n.value;
      return found;
    });
  if (kind == "dims")
    return parsed(Dims(), [&](Dim &v) { return dim(v); });
  if (kind == "strings")
    return parsed(Strings(), [&](std::string &v) { return string(v); });
  return llvm::None;
}

/// `gemm<mr=8, …>` after its name.
llvm::Optional<Attribute> AttributeParser::schedule(llvm::StringRef tactic) {
  Schedule out;
  out.tactic = tactic.str();
  if (!expect("<"))
    return llvm::None;
  for (bool first = true; !accept(">"); first = false) {
    std::string key;
    int64_t value;
    if ((!first && !expect(",")) || !word(key) || !expect("=") || !integer(value))
      return llvm::None;
    out.params.emplace_back(key, value);
  }
  return Attribute(std::move(out));
}

llvm::Optional<Attribute> AttributeParser::attribute() {
  const char c = peek();
  if (c == '"') {
    std::string s;
    return string(s) ? llvm::Optional<Attribute>(std::move(s)) : llvm::None;
  }
  if (c == '[') {
    Ints v;
    return ints(v) ? llvm::Optional<Attribute>(std::move(v)) : llvm::None;
  }
  if (accept("!")) {
    Type t;
    return type(t) ? llvm::Optional<Attribute>(t) : llvm::None;
  }
  if (isdigit(static_cast<unsigned char>(c)) || c == '-' || atNumberWord()) {
    Number n;
    if (!number(n))
      return llvm::None;
    return n.isInt ? Attribute(n.integer) : Attribute(n.value);
  }
  if (accept("true"))
    return Attribute(true);
  if (accept("false"))
    return Attribute(false);
  std::string w;
  if (!word(w))
    return llvm::None;
  if (peek() == '[' && (w == "lists" || w == "floats" || w == "dims" || w == "strings"))
    return namedList(w);
  if (peek() != '<')
    return Attribute(Word{w});
  if (w == "dense" || w == "splat" || w == "data" || w == "elided")
    return literal(w);
  return schedule(w);
}

//===----------------------------------------------------------------------===//
// Literals
//===----------------------------------------------------------------------===//

bool AttributeParser::literalType(LiteralType &out) {
  const size_t start = mark();
  llvm::SmallVector<Dim, 6> dims;
  if (!shapeAndElement(dims, out.element))
    return false;
  for (Dim d : dims) {
    if (!d.isConstant())
      return failAt(start, "a literal needs constant extents");
    out.shape.push_back(d.constant());
    if (llvm::MulOverflow(out.count, d.constant(), out.count) || out.count > kMaxBytes)
      return failAt(start, "literal is too large");
  }
  return true;
}

/// The offset in the side file.
bool AttributeParser::sideFileLiteral(const LiteralType &type, Tensor &out) {
  const size_t start = mark();
  int64_t offset;
  if (type.element == Element::String)
    return fail("text has no place in a side file");
  if (!integer(offset))
    return false;
  const int64_t bytes = byteSize(type.element, type.count), size = data_.size();
  if (offset < 0 || bytes > size || offset > size - bytes)
    return failAt(start, "the side file is missing or too short: expected " +
                             std::to_string(bytes) + " bytes at offset " + std::to_string(offset) +
                             ", found a file of " + std::to_string(size));
  const auto *first = reinterpret_cast<const uint8_t *>(data_.data()) + offset;
  out = Tensor(type.element, type.shape, std::vector<uint8_t>(first, first + bytes));
  return true;
}

/// `a, b, …`; of a splat the one value that all elements have.
bool AttributeParser::textLiteral(const LiteralType &type, bool splat, Tensor &out) {
  std::vector<std::string> values(splat ? 1 : type.count);
  for (std::string &value : values)
    if ((&value != &values.front() && !expect(",")) || !string(value))
      return false;
  if (splat)
    values.resize(type.count, values.front());
  out = Tensor::strings(type.shape, std::move(values));
  return true;
}

/// A number, `bits(n)` for what no number says, a NaN with its payload, or `(re, im)`.
bool AttributeParser::elementValue(Tensor &out, int64_t index) {
  const size_t start = mark();
  const int64_t width = bitWidth(out.element());
  if (isComplex(out.element())) {
    Tensor parts(width == 64 ? Element::F32 : Element::F64, {2});
    if (!expect("(") || !elementValue(parts, 0) || !expect(",") || !elementValue(parts, 1) ||
        !expect(")"))
      return false;
    memcpy(out.mutableBytes() + index * (width / 8), parts.bytes().data(), size_t(width / 8));
    return true;
  }
  if (accept("bits")) {
    if (width % 8 != 0 || width > 64)
      return failAt(start, "bits(…) needs elements of 8, 16, 32 or 64 bits");
    uint64_t bits;
    if (!expect("(") || !bitPattern(bits, width) || !expect(")"))
      return false;
    memcpy(out.mutableBytes() + index * (width / 8), &bits, width / 8);
    return true;
  }
  Number n;
  if (!number(n))
    return false;
  if (isFloat(out.element()))
    out.set(index, n.value);
  else if (n.isInt)
    out.setInt(index, n.integer);
  else
    return failAt(start, "expected an integer");
  return true;
}

bool AttributeParser::numericLiteral(const LiteralType &type, bool splat, Tensor &out) {
  out = Tensor(type.element, type.shape);
  const int64_t given = splat ? std::min<int64_t>(type.count, 1) : type.count;
  for (int64_t i = 0; i < given; ++i)
    if ((i && !expect(",")) || !elementValue(out, i))
      return false;
  if (given == type.count)
    return true;
  const int64_t width = bitWidth(type.element);
  if (width % 8 == 0) {
    uint8_t *bytes = out.mutableBytes(); // what is filled doubles
    const size_t whole = size_t(byteSize(type.element, type.count));
    for (size_t filled = size_t(width / 8), more = 0; filled < whole; filled += more)
      memcpy(bytes + filled, bytes, more = std::min(filled, whole - filled));
  } else { // one byte's elements, then bytes
    const int64_t whole = type.count * width / 8;
    for (int64_t i = 1; i < std::min(type.count, 8 / width); ++i)
      isFloat(type.element) ? out.set(i, out.at(0)) : out.setInt(i, out.intAt(0));
    if (whole)
      memset(out.mutableBytes(), out.bytes()[0], size_t(whole));
    for (int64_t i = whole * 8 / width; i < type.count; ++i)
      isFloat(type.element) ? out.set(i, out.at(0)) : out.setInt(i, out.intAt(0));
  }
  return true;
}

llvm::Optional<Attribute> AttributeParser::literal(llvm::StringRef kind) {
  LiteralType type;
  if (!expect("<") || !literalType(type))
    return llvm::None;
  if (kind == "elided") {
    fail("elided literals are for reading only; write the module with 'tenon opt -o FILE.tn'");
    return llvm::None;
  }
  if (!expect(":"))
    return llvm::None;
  const bool splat = kind == "splat";
  // A dense list holds each element, so its length bounds what is allocated.
  if (kind == "dense" && type.count > int64_t(text_.size())) {
    fail("expected " + std::to_string(type.count) + " elements");
    return llvm::None;
  }
  if (splat) {
    const int64_t elements = std::min(type.count, 8 * kMaxSplatBytes); // of 2 bits too many, too
    splatBytes_ += type.element == Element::String ? elements * int64_t(sizeof(std::string))
                                                   : byteSize(type.element, elements);
    if (splatBytes_ > kMaxSplatBytes) {
      fail("splat literals of one text hold at most " + std::to_string(kMaxSplatBytes >> 20) +
           " MiB in all");
      return llvm::None;
    }
  }
  Tensor value;
  const bool parsed = kind == "data"                    ? sideFileLiteral(type, value)
                      : type.element == Element::String ? textLiteral(type, splat, value)
                                                        : numericLiteral(type, splat, value);
  if (!parsed || !expect(">"))
    return llvm::None;
  return Attribute(Literal(std::make_shared<const Tensor>(std::move(value))));
}

} // namespace tenon
