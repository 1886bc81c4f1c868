// Implements the reading of quantised maps.
#include "passes/QuantizedForm.h"

#include "passes/Rewrite.h"

#include "llvm/ADT/Twine.h"

#include <cmath>

namespace tenon {
namespace {

bool isOneValue(const Tensor &t) { return t.size() == 1 || t.isSplat(); }

/// A scalar of a map's body that is known per position of one dimension of the space. `dim` is −1
/// until a tensor settles it.
llvm::Optional<PerChannel> constantScalar(Operation &map, Value *scalar, int64_t &dim) {
  if (llvm::Optional<double> c = scalarValue(scalar))
    return PerChannel{*c};
  if (scalar->argumentOf() != &map.region())
    return llvm::None;
  const unsigned i = scalar->index() - accumulators(map);
  Literal l = constantValue(map.operand(i));
  if (!l || l->element() == Element::String || l->size() == 0)
    return llvm::None;
  if (isOneValue(*l))
    return PerChannel{l->at(0)};
  int64_t along = -1;
  for (size_t d = 0; d < indexMap(map, i).size(); ++d)
    if (l->shape()[d] != 1) {
      if (along >= 0)
        return llvm::None;
      along = indexMap(map, i)[d];
    }
  if (along < 0 || (dim >= 0 && dim != along))
    return llvm::None;
  dim = along;
  PerChannel values(static_cast<size_t>(l->size()));
  l->toDoubles(0, l->size(), values.data());
  return values;
}

/// Whether operand i is read element by element.
bool readsInPlace(const Operation &map, unsigned i) {
  return map.operand(i)->type().shape() == map.result()->type().shape() &&
         isIdentityMap(indexMap(map, i), map.result()->type().rank());
}

/// Applies f to both, entry by entry.
template <class F> PerChannel zip(const PerChannel &a, const PerChannel &b, F f) {
  PerChannel c(std::max(a.size(), b.size()));
  for (size_t i = 0; i < c.size(); ++i)
    c[i] = f(at(a, i), at(b, i));
  return c;
}

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
    return fail("a float from outside");
  if (def->is(Op::Map) && def->numResults() == 1 && tensor->type().element() == Element::F32) {
    mergeLocation(nodes, def->loc());
    return read(def->region().terminator()->operand(0), *def, dims, out);
  }
  if (def->isAny(Op::Conv, Op::MatMul, Op::Pool, Op::Reduce))
    return tensor->hasOneUse() ? readContraction(*def, dims, out)
                               : fail("a sum that others read as floats");
  return fail("computed by " + def->name());
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
  case Op::Dequantize: {
    Value *q = op->operand(0);
    const llvm::Optional<double> known = scalarValue(q);
    if (!known && q->argumentOf() != &map.region())
      return fail("integers computed in a body");
    int64_t dim = -1;
    auto z = constantScalar(map, op->operand(2), dim);
    if (!operand(1, a))
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
  case Op::Add:
  case Op::Sub: {
    if (!operand(0, a) || !operand(1, b))
      return false;
    if (op->is(Op::Sub))
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
  case Op::Mul:
  case Op::Div: {
    if (!operand(0, a) || !operand(1, b))
      return false;
    if (op->is(Op::Mul) && multiply(a, b)) {
      out = product(std::move(a), b.terms[0]);
      return true;
    }
    const bool first = op->is(Op::Mul) && a.terms.empty();
    IntegerSum &factor = first ? a : b;
    out = first ? std::move(b) : std::move(a);
    if (!factor.terms.empty() || factor.clamped())
      return fail("a product of tensors other than two of bytes, or of bytes and 16 bits");
    if (op->is(Op::Div)) {
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
  case Op::Min:
  case Op::Max: {
    if (!operand(0, a) || !operand(1, b))
      return false;
    const bool first = a.terms.empty();
    const IntegerSum &bound = first ? a : b;
    if (!bound.terms.empty() || bound.constant.size() > 1)
      return fail("an extreme of two tensors");
    const double limit = bound.constant[0];
    out = first ? std::move(b) : std::move(a);
    if (op->is(Op::Min)) {
      out.low = std::min(out.low, limit);
      out.high = std::min(out.high, limit);
    } else {
      out.low = std::max(out.low, limit);
      out.high = std::max(out.high, limit);
    }
    return true;
  }
  case Op::Clamp: {
    auto low = scalarValue(op->operand(1)), high = scalarValue(op->operand(2));
    if (!low || !high || !(*low <= *high) || !operand(0, out))
      return fail("bounds known only at run time");
    out.low = std::min(std::max(out.low, *low), *high);
    out.high = std::min(std::max(out.high, *low), *high);
    return true;
  }
  case Op::Cast: return operand(0, out); // f32 to f32
  default: return fail("the function " + op->name());
  }
}

} // namespace

llvm::Optional<Dequantized> matchDequantized(Value *v) {
  Operation *map = v->def();
  if (!map || !map->is(Op::Map) || map->numResults() != 1 || v->type().element() != Element::F32)
    return llvm::None;
  Value *end = map->region().terminator()->operand(0);
  Operation *op = end->def();
  if (!op || !op->is(Op::Dequantize) || op->operand(0)->argumentOf() != &map->region() ||
      !readsInPlace(*map, op->operand(0)->index()))
    return llvm::None;
  Dequantized d;
  d.q = map->operand(op->operand(0)->index());
  auto s = constantScalar(*map, op->operand(1), d.axis);
  auto z = constantScalar(*map, op->operand(2), d.axis);
  if (!s || !z)
    return llvm::None;
  d.scale = std::move(*s);
  d.zero = std::move(*z);
  return d;
}

/// Whether no sum of 16-bit activations times these weights, which have to be known, leaves half of
/// the range of 32 bits: a bias is added in the other half.
static bool sumsFit(const Operation &op, const Dequantized &x, const Dequantized &w) {
  const Literal l = constantValue(w.q);
  if (!l)
    return false;
  const Element e = x.q->type().element();
  const double most = std::max(double(maxInt(e)) - x.zero[0], x.zero[0] - double(minInt(e)));
  const bool first = op.is(Op::Conv) || op.boolAttr("trans_b");
  const int64_t filters = l->shape()[op.is(Op::Conv) ? 0 : l->rank() - (first ? 2 : 1)];
  const int64_t inner = op.is(Op::Conv) ? l->size() / filters : first ? l->shape().back() : 1;
  std::vector<double> sums(size_t(filters), 0);
  for (int64_t i = 0; i < l->size(); ++i) {
    const auto k = size_t(i / inner % filters);
    sums[k] += std::fabs(double(l->intAt(i)) - at(w.zero, w.zero.size() == 1 ? 0 : k));
  }
  return llvm::all_of(sums, [&](double sum) { return sum * most < 0x1p30; });
}

llvm::Optional<IntegerContraction> matchIntegerContraction(Operation &op, std::string &why) {
  auto fail = [&](const char *reason) {
    if (why.empty())
      why = reason;
    return llvm::None;
  };
  if (op.numOperands() != 2 || op.result()->type().element() != Element::F32)
    return fail("a contraction of other types than f32");
  auto x = matchDequantized(op.operand(0)), w = matchDequantized(op.operand(1));
  if (!x)
    return fail("an input that is not dequantised");
  if (!w)
    return fail("weights that are floats, or dequantised by blocks");
  const Element xe = x->q->type().element(), we = w->q->type().element();
  if (!isInteger(xe) || (bitWidth(xe) != 8 && bitWidth(xe) != 16) || !isInteger(we) ||
      bitWidth(we) > 8)
    return fail("operands of other than 8 or 16 bits by 8");
  if (!x->perTensor())
    return fail("a scale of the input for each channel");
  if (!w->perTensor()) {
    const auto rank = int64_t(w->q->type().rank());
    const int64_t channel = op.is(Op::Conv) ? 0 : op.boolAttr("trans_b") ? rank - 2 : rank - 1;
    if (w->axis != channel || (op.is(Op::MatMul) && rank != 2))
      return fail("scales of the weights that do not follow the output channel");
  }
  if (!constantValue(w->q) && (bitWidth(we) != 8 || !w->perTensor()))
    return fail("narrow weights known only at run time");
  if (bitWidth(xe) == 16 && !sumsFit(op, *x, *w))
    return fail("sums of 16-bit activations that may leave 32 bits");
  IntegerContraction c{*x, *w, {}};
  c.coefficient = zip(w->scale, x->scale, [](double a, double b) { return a * b; });
  return c;
}

llvm::Optional<int64_t> matchIntegerReduction(Operation &op, Dequantized &x, std::string &why) {
  auto fail = [&](const char *reason) {
    if (why.empty())
      why = reason;
    return llvm::None;
  };
  auto d = op.numOperands() == 1 ? matchDequantized(op.operand(0)) : llvm::None;
  const unsigned bits = d ? bitWidth(d->q->type().element()) : 0;
  if (!d || !d->perTensor() || (bits != 8 && bits != 16))
    return fail("a reduction of what is not dequantised with one scale");
  x = *d;
  int64_t count = 1;
  auto fits = [&](int64_t n) { return n < int64_t(1) << (31 - bits); };
  if (op.is(Op::Pool)) {
    if (op.wordAttr("kind") != "average" || op.boolAttr("ceil") ||
        llvm::any_of(op.intsAttr("pads"), [](int64_t p) { return p != 0; }))
      return fail("windows over different numbers of elements");
    for (int64_t k : op.intsAttr("kernel"))
      count *= k;
    return fits(count) ? llvm::Optional<int64_t>(count) : fail("sums that may leave 32 bits");
  }
  if (op.numResults() != 1 || op.floatsAttr("init")[0] != 0 ||
      !isIdentityMap(indexMap(op, 0), op.operand(0)->type().rank()))
    return fail("a reduction other than a sum");
  Operation *end = op.region().terminator();
  Operation *sum = end->operand(0)->def();
  Value *a = op.region().argument(0), *b = op.region().argument(1);
  if (!sum || !sum->is(Op::Add) ||
      !((sum->operand(0) == a && sum->operand(1) == b) ||
        (sum->operand(0) == b && sum->operand(1) == a)))
    return fail("a reduction other than a sum");
  const IndexMap &m = indexMap(op, 0);
  for (int64_t axis : op.intsAttr("axes")) {
    const auto dim = llvm::find(m, axis);
    if (dim == m.end() || !op.operand(0)->type().dim(unsigned(dim - m.begin())).isConstant())
      return fail("a number of elements known only at run time");
    count *= op.operand(0)->type().dim(unsigned(dim - m.begin())).constant();
  }
  return fits(count) ? llvm::Optional<int64_t>(count) : fail("sums that may leave 32 bits");
}

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
