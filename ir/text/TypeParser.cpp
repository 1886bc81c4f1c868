// Implements the parser of extents, layouts and types.
#include "ir/text/TypeParser.h"

#include "ir/Suggestion.h"

namespace tenon {
namespace {
constexpr llvm::StringRef kElementNames[] = {
#define TENON_ELEMENT(NAME, TEXT, BITS, ONNX, CLASS) TEXT,
    TENON_ELEMENT_TYPES(TENON_ELEMENT)
#undef TENON_ELEMENT
};
} // namespace

bool TypeParser::dimExpression(Dim &out, unsigned depth) {
  if (depth > kMaxDepth)
    return fail("extent is nested too deeply");
  const char c = peek();
  if (isdigit(static_cast<unsigned char>(c)) || c == '-') {
    int64_t v;
    if (!integer(v))
      return false;
    out = context_.dim(v);
    return true;
  }
  Dim a, b;
  if (accept("(")) {
    if (!dimExpression(a, depth + 1))
      return false;
    const bool sum = accept("+");
    if (!sum && !expect("*"))
      return false;
    if (!dimExpression(b, depth + 1) || !expect(")"))
      return false;
    out = sum ? a + b : a * b;
    return true;
  }
  using Fold = Dim (*)(Dim, Dim);
  static const std::pair<const char *, Fold> kCalls[] = {
      {"floordiv", [](Dim x, Dim y) { return floorDiv(x, y); }},
      {"ceildiv", [](Dim x, Dim y) { return ceilDiv(x, y); }},
      {"mod", [](Dim x, Dim y) { return mod(x, y); }},
      {"min", [](Dim x, Dim y) { return min(x, y); }},
      {"max", [](Dim x, Dim y) { return max(x, y); }}};
  for (auto &[call, fold] : kCalls) {
    const size_t before = at_;
    if (!accept(call))
      continue;
    if (!accept("(")) { // a symbol that happens to have this name
      at_ = before;
      break;
    }
    if (!dimExpression(a, depth + 1) || !expect(",") || !dimExpression(b, depth + 1) ||
        !expect(")"))
      return false;
    out = fold(a, b);
    return true;
  }
  std::string symbol;
  const size_t start = mark();
  if (!word(symbol))
    return false;
  symbolPlaces_.try_emplace(symbol, start);
  out = context_.symbol(symbol);
  return true;
}

bool TypeParser::dim(Dim &out) {
  if (accept("{"))
    return dimExpression(out) && expect("}");
  int64_t v;
  if (!integer(v))
    return false;
  out = context_.dim(v);
  return true;
}

bool TypeParser::element(Element &out) {
  const size_t start = mark();
  const llvm::StringRef word = wordCharacters();
  const auto found = parseElement(word);
  if (!found)
    return failAt(start, "expected an element type such as f32 or i8" + foundWord(word) +
                             didYouMean(word, kElementNames));
  out = *found;
  return true;
}

bool TypeParser::shapeAndElement(llvm::SmallVectorImpl<Dim> &shape, Element &e) {
  while (true) {
    const char c = peek();
    if (!isdigit(static_cast<unsigned char>(c)) && c != '{')
      return element(e);
    const size_t start = mark();
    Dim d;
    if (!dim(d))
      return false;
    if (d.isConstant() && d.constant() < 0)
      return failAt(start, "expected an extent of at least 0");
    shape.push_back(d);
    if (at_ >= text_.size() || text_[at_] != 'x')
      return fail("expected 'x' after an extent");
    ++at_;
  }
}

/// `2`, a block of it (`1/16`), or the place in that block (`1%16`); the extent that is allocated
/// (`:24`) and the first element's place in it (`@4`) may follow.
bool TypeParser::layoutAxis(unsigned rank, LayoutAxis &out) {
  size_t start = mark();
  int64_t d;
  if (!integer(d))
    return false;
  if (d < 0 || d >= int64_t(rank))
    return failAt(start, "layout names dimension " + std::to_string(d) + " of a tensor of rank " +
                             std::to_string(rank));
  out.dim = int(d);
  if (accept("/") || (out.inner = accept("%"))) {
    start = mark();
    if (!integer(out.block))
      return false;
    if (out.block < 1)
      return failAt(start, "expected a block of at least 1");
  }
  return (!accept(":") || dim(out.alloc)) && (!accept("@") || integer(out.origin));
}

bool TypeParser::layout(unsigned rank, Layout &out) {
  const size_t start = mark();
  for (auto &[known, knownRank] :
       {std::pair("nwc", 3u), std::pair("nhwc", 4u), std::pair("ndhwc", 5u)})
    if (accept(known)) {
      if (rank != knownRank)
        return failAt(start, "layout does not fit a tensor of rank " + std::to_string(rank));
      out = Layout::channelsLast(context_, rank);
      return true;
    }
  llvm::SmallVector<LayoutAxis, 6> axes;
  llvm::SmallVector<unsigned, 6> outer(rank, 0), inner(rank, 0);
  if (!list([&] {
        LayoutAxis axis;
        if (!layoutAxis(rank, axis))
          return false;
        (axis.inner ? inner : outer)[axis.dim] += 1;
        axes.push_back(axis);
        return true;
      }))
    return false;
  for (unsigned i = 0; i < rank; ++i)
    if (outer[i] != 1 || inner[i] > 1)
      return failAt(start, "layout must name each dimension once (or as d/b and d%b)");
  out = Layout::get(context_, axes);
  return true;
}

bool TypeParser::tensor(Type &out) {
  llvm::SmallVector<Dim, 6> shape;
  Element e = Element::F32;
  Layout l;
  Space space = Space::Device;
  if (!expect("<") || !shapeAndElement(shape, e))
    return false;
  while (accept(",")) {
    if (accept("host"))
      space = Space::Host;
    else if (!layout(unsigned(shape.size()), l))
      return false;
  }
  out = Type::tensor(context_, e, shape, l, space);
  return expect(">");
}

bool TypeParser::type(Type &out, unsigned depth) {
  if (depth > kMaxDepth)
    return fail("type is nested too deeply");
  if (accept("tensor"))
    return tensor(out);
  const bool sequence = accept("seq");
  if (sequence || accept("optional")) {
    Type inner;
    if (!expect("<") || !type(inner, depth + 1))
      return false;
    out = sequence ? Type::sequence(inner) : Type::optional(inner);
    return expect(">");
  }
  Element e = Element::F32;
  if (!element(e))
    return false;
  out = Type::scalar(context_, e);
  return true;
}

} // namespace tenon
