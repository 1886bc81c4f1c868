// Implements the reading of quantised maps as sums of integer tensors.
#include "passes/QuantizedForm.h"

#include "passes/Rewrite.h"

#include "llvm/ADT/Twine.h"

#include <cmath>

namespace tenon {
namespace {

void scale(IntegerSum &s, const PerChannel &by) {
  auto times = [](double a, double b) { return a * b; };
  for (IntegerTerm &t : s.terms)
    t.coefficient = zip(t.coefficient, by, times);
  s.constant = zip(s.constant, by, times);
  if (s.clamped()) { // one factor: see Reader::read
    s.low *= by[0];
    s.high *= by[0];
    if (by[0] < 0)
      std::swap(s.low, s.high);
  }
}

/// Whether a sum is one tensor of integers with one zero point.
bool isTensor(const IntegerSum &s) {
  if (s.terms.size() != 1 || s.clamped() || llvm::any_of(s.constant, [](double v) { return v; }))
    return false;
  const IntegerTerm &t = s.terms[0];
  return !t.isSum() && !t.factor && t.zero.size() == 1;
}

/// Whether products of two such tensors have 24 bits at most.
bool multiply(const IntegerSum &a, const IntegerSum &b) {
  return isTensor(a) && isTensor(b) &&
         bitWidth(a.terms[0].tensor->type().element()) +
                 bitWidth(b.terms[0].tensor->type().element()) <=
             24;
}

/// The product of two such sums.
IntegerSum product(IntegerSum s, const IntegerTerm &by) {
  IntegerTerm &t = s.terms[0];
  t.coefficient = zip(t.coefficient, by.coefficient, [](double a, double b) { return a * b; });
  t.factor = by.tensor;
  t.factorMap = by.map;
  t.factorZero = int64_t(by.zero[0]);
  return s;
}

/// Reads scalars of maps over the space of one quantised map.
class Reader {
public:
  Reader(Operation &root, std::string &why) : root_(root), why_(why) {}

  /// `scalar` of `map`, whose dimension d is dimension `dims[d]` of the root's space.
  bool read(Value *scalar, Operation &map, const IndexMap &dims, IntegerSum &out);
  int64_t axis = -1;
  Location nodes;

private:
  bool readTensor(Value *tensor, const IndexMap &dims, IntegerSum &out);
  bool readContraction(Operation &op, const IndexMap &dims, IntegerSum &out);
  bool readConstant(const Tensor &t, const IndexMap &dims, PerChannel &out);
  bool readDequantize(Operation &op, Operation &map, const IndexMap &dims, IntegerSum &out);
  bool readSum(const Operation &op, IntegerSum a, IntegerSum b, IntegerSum &out);
  bool readProduct(const Operation &op, IntegerSum a, IntegerSum b, IntegerSum &out);
  bool readExtreme(const Operation &op, IntegerSum a, IntegerSum b, IntegerSum &out);
  bool settle(int64_t dim) {
    if (axis >= 0 && axis != dim)
      return fail("constants along two dimensions");
    axis = dim;
    return true;
  }
  bool fail(const llvm::Twine &reason) {
    if (why_.empty())
      why_ = reason.str();
    return false;
  }

  Operation &root_;
  std::string &why_;
};

IndexMap compose(const IndexMap &inner, const IndexMap &outer) {
  IndexMap m;
  for (int64_t d : inner)
    m.push_back(d < 0 ? -1 : outer[size_t(d)]);
  return m;
}

bool Reader::readConstant(const Tensor &t, const IndexMap &dims, PerChannel &out) {
  if (t.element() == Element::String || t.size() == 0)
    return fail("a constant of no numbers");
  if (isOneValue(t)) {
    out = {t.at(0)};
    return true;
  }
  for (size_t d = 0; d < dims.size(); ++d)
    if (t.shape()[d] != 1 && (t.shape()[d] != t.size() || dims[d] < 0 || !settle(dims[d])))
      return fail("a constant that varies along several dimensions");
  out.resize(size_t(t.size()));
  t.toDoubles(0, t.size(), out.data());
  return true;
}

bool Reader::readContraction(Operation &op, const IndexMap &dims, IntegerSum &out) {
  if (!isIdentityMap(dims, root_.result()->type().rank()))
    return fail("a contraction that is read in another order");
  IntegerTerm term;
  term.tensor = op.result();
  term.map = dims;
  term.zero = {0.0};
  if (op.isAny(Op::Conv, Op::MatMul)) {
    auto c = matchIntegerContraction(op, why_);
    if (!c || (c->coefficient.size() > 1 && !settle(outputChannel(op))))
      return false;
    term.coefficient = c->coefficient;
  } else {
    Dequantized x;
    auto count = matchIntegerReduction(op, x, why_);
    if (!count)
      return false;
    term.coefficient = {op.is(Op::Pool) ? x.scale[0] / double(*count) : x.scale[0]};
    term.zero = {x.zero[0] * double(*count)};
  }
  out.terms.push_back(std::move(term));
  return true;
}

bool Reader::readTensor(Value *tensor, const IndexMap &dims, IntegerSum &out) {
  if (Literal l = constantValue(tensor))
    return readConstant(*l, dims, out.constant);
  Operation *def = tensor->def();
  if (!def)
    return fail("it takes a float that no layer quantises");
  if (def->is(Op::Map) && def->numResults() == 1 && tensor->type().element() == Element::F32) {
    mergeLocation(nodes, def->loc());
    return read(def->region().terminator()->operand(0), *def, dims, out);
  }
  if (def->isAny(Op::Conv, Op::MatMul, Op::Pool, Op::Reduce))
    return tensor->hasOneUse() ? readContraction(*def, dims, out)
                               : fail("a sum that others read as floats");
  return fail("computed by " + def->name());
}

/// Integers with their scale and zero point.
bool Reader::readDequantize(Operation &op, Operation &map, const IndexMap &dims, IntegerSum &out) {
  IntegerSum a;
  Value *q = op.operand(0);
  const llvm::Optional<double> known = scalarValue(q);
  if (!known && q->argumentOf() != &map.region())
    return fail("integers computed in a body");
  int64_t dim = -1;
  auto z = constantScalar(map, op.operand(2), dim);
  if (!read(op.operand(1), map, dims, a))
    return false;
  if (!z || !a.terms.empty())
    return fail("scale and zero point known only at run time");
  if (!isInteger(q->type().element()) || bitWidth(q->type().element()) < 8)
    return fail("elements that share a byte");
  if (dim >= 0 && (dims[size_t(dim)] < 0 || !settle(dims[size_t(dim)])))
    return false;
  const unsigned i = known ? 0 : q->index();
  const IndexMap where = known ? IndexMap() : compose(indexMap(map, i), dims);
  Literal l = known ? nullptr : constantValue(map.operand(i));
  if (known || l) {
    PerChannel values{known ? *known : 0.0};
    if (l && !readConstant(*l, where, values))
      return false;
    auto difference = zip(values, *z, [](double v, double zero) { return v - zero; });
    out.constant = zip(difference, a.constant, [](double v, double by) { return v * by; });
    return true;
  }
  IntegerTerm term;
  term.tensor = map.operand(i);
  term.map = where;
  term.coefficient = a.constant;
  term.zero = *z;
  out.terms.push_back(std::move(term));
  return true;
}

bool Reader::readSum(const Operation &op, IntegerSum a, IntegerSum b, IntegerSum &out) {
  if (op.is(Op::Sub))
    scale(b, {-1.0});
  auto isNumber = [](const IntegerSum &v) { return v.terms.empty() && v.constant.size() == 1; };
  if ((a.clamped() && !isNumber(b)) || (b.clamped() && !isNumber(a)))
    return fail("a sum of clamped values");
  // A bound moves with the number that is added; infinite ones stay.
  out.low = a.clamped() ? a.low + b.constant[0] : b.low + a.constant[0];
  out.high = a.clamped() ? a.high + b.constant[0] : b.high + a.constant[0];
  out.terms = std::move(a.terms);
  out.terms.insert(out.terms.end(), b.terms.begin(), b.terms.end());
  out.constant = zip(a.constant, b.constant, [](double u, double v) { return u + v; });
  return true;
}

bool Reader::readProduct(const Operation &op, IntegerSum a, IntegerSum b, IntegerSum &out) {
  if (op.is(Op::Mul) && multiply(a, b)) {
    out = product(std::move(a), b.terms[0]);
    return true;
  }
  const bool first = op.is(Op::Mul) && a.terms.empty();
  IntegerSum &factor = first ? a : b;
  out = first ? std::move(b) : std::move(a);
  if (!factor.terms.empty() || factor.clamped())
    return fail("a product of tensors other than two of bytes, or of bytes and 16 bits");
  if (op.is(Op::Div)) {
    if (llvm::is_contained(factor.constant, 0.0))
      return fail("a division by zero");
    for (double &v : factor.constant)
      v = 1 / v;
  }
  if (out.clamped() && factor.constant.size() > 1)
    return fail("a clamped value with a scale for each channel");
  scale(out, factor.constant);
  return true;
}

/// The smaller or larger one of a sum and a number.
bool Reader::readExtreme(const Operation &op, IntegerSum a, IntegerSum b, IntegerSum &out) {
  const bool first = a.terms.empty();
  const IntegerSum &bound = first ? a : b;
  if (!bound.terms.empty() || bound.constant.size() > 1)
    return fail("an extreme of two tensors");
  const double limit = bound.constant[0];
  out = first ? std::move(b) : std::move(a);
  if (op.is(Op::Min)) {
    out.low = std::min(out.low, limit);
    out.high = std::min(out.high, limit);
  } else {
    out.low = std::max(out.low, limit);
    out.high = std::max(out.high, limit);
  }
  return true;
}

bool Reader::read(Value *scalar, Operation &map, const IndexMap &dims, IntegerSum &out) {
  if (llvm::Optional<double> c = scalarValue(scalar)) {
    out.constant = {*c};
    return true;
  }
  if (scalar->argumentOf() == &map.region()) {
    const unsigned i = scalar->index();
    if (map.operand(i)->type().element() != Element::F32)
      return fail("integers without a scale");
    return readTensor(map.operand(i), compose(indexMap(map, i), dims), out);
  }
  Operation *op = scalar->def();
  if (!op || scalar->type().element() != Element::F32)
    return fail("computed in other types than f32");
  IntegerSum a, b;
  auto operand = [&](unsigned i, IntegerSum &to) { return read(op->operand(i), map, dims, to); };
  switch (op->kind()) {
  case Op::Dequantize: return readDequantize(*op, map, dims, out);
  case Op::Add:
  case Op::Sub: return operand(0, a) && operand(1, b) && readSum(*op, a, b, out);
  case Op::Mul:
  case Op::Div: return operand(0, a) && operand(1, b) && readProduct(*op, a, b, out);
  case Op::Min:
  case Op::Max: return operand(0, a) && operand(1, b) && readExtreme(*op, a, b, out);
  case Op::Neg:
    if (!operand(0, out))
      return false;
    scale(out, {-1.0});
    return true;
  case Op::Relu:
    if (!operand(0, out))
      return false;
    out.low = std::max(out.low, 0.0);
    out.high = std::max(out.high, 0.0);
    return true;
  case Op::Clamp: {
    auto low = scalarValue(op->operand(1)), high = scalarValue(op->operand(2));
    if (!low || !high || !(*low <= *high) || !operand(0, out))
      return fail("bounds known only at run time");
    out.low = std::min(std::max(out.low, *low), *high);
    out.high = std::min(std::max(out.high, *low), *high);
    return true;
  }
  case Op::Cast: // f32 to f32, and what may stay f32
    return op->boolAttr("rounds") ? fail("a rounding to 16 bits") : operand(0, out);
  default: return fail("the function " + op->name());
  }
}

} // namespace

llvm::Optional<QuantizedSum> matchQuantizedSum(Operation &map, std::string &why) {
  if (!map.is(Op::Map) || map.numResults() != 1)
    return llvm::None;
  Operation *q = map.region().terminator()->operand(0)->def();
  const Element to = map.result()->type().element();
  if (!q || !q->is(Op::Quantize) || !isInteger(to) || (bitWidth(to) != 8 && bitWidth(to) != 16))
    return llvm::None;
  auto fail = [&](const char *reason) {
    if (why.empty())
      why = reason;
    return llvm::None;
  };
  QuantizedSum result;
  int64_t dim = -1;
  auto s = constantScalar(map, q->operand(1), dim), z = constantScalar(map, q->operand(2), dim);
  if (!s || !z || dim >= 0)
    return fail("scale and zero point of the result are not one number known at compile time");
  if (!(s->front() > 0) || !std::isfinite(s->front()))
    return fail("a scale that is no positive number");
  result.scale = s->front();
  result.zero = int64_t(z->front());
  Reader reader(map, why);
  IndexMap identity = identityMap(map.result()->type().rank());
  if (!reader.read(q->operand(0), map, identity, result.sum))
    return llvm::None;
  if (result.sum.terms.empty())
    return fail("a constant");
  result.sum.axis = reader.axis;
  result.sum.nodes = std::move(reader.nodes);
  auto widen = [&](const PerChannel &v) {
    result.sum.channels = std::max<int64_t>(result.sum.channels, int64_t(v.size()));
  };
  widen(result.sum.constant);
  for (const IntegerTerm &t : result.sum.terms) {
    widen(t.coefficient);
    widen(t.zero);
  }
  if (result.sum.channels == 1)
    result.sum.axis = -1;
  return result;
}

} // namespace tenon
