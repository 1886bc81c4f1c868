// Implements the reading of dequantised tensors, and of the contractions and reductions that sum
// them up.
#include "passes/QuantizedForm.h"

#include "passes/Rewrite.h"

#include <cmath>

namespace tenon {
namespace {

/// Whether no sum of 16-bit activations times these weights, which have to be known, leaves half of
/// the range of 32 bits: a bias is added in the other half.
bool sumsFit(const Operation &op, const Dequantized &x, const Dequantized &w) {
  const Literal l = constantValue(w.q);
  if (!l)
    return false;
  const Element e = x.q->type().element();
  const double most = std::max(double(maxInt(e)) - x.zero[0], x.zero[0] - double(minInt(e)));
  const bool first = op.is(Op::Conv) || op.boolAttr("trans_b");
  const int64_t filters = l->shape()[op.is(Op::Conv) ? 0 : l->rank() - (first ? 2 : 1)];
  const int64_t inner = op.is(Op::Conv) ? l->size() / filters : first ? l->shape().back() : 1;
  std::vector<double> sums(size_t(filters), 0);
  withInts(*l, [&](const auto &weights) {
    for (int64_t i = 0; i < l->size(); ++i) {
      const auto k = size_t(i / inner % filters);
      sums[k] += std::fabs(double(weights[i]) - at(w.zero, k));
    }
  });
  return llvm::all_of(sums, [&](double sum) { return sum * most < 0x1p30; });
}

} // namespace

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
  // Tools that quantise what they saw be infinite write infinite scales.
  if (!s || !z || !llvm::all_of(*s, [](double scale) { return std::isfinite(scale); }))
    return llvm::None;
  d.scale = std::move(*s);
  d.zero = std::move(*z);
  return d;
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

} // namespace tenon
