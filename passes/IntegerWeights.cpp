// Implements the weights of contractions of integers.
#include "passes/IntegerWeights.h"

namespace tenon {
namespace {

/// q less `zero` along `axis` (−1: one for all).
llvm::Optional<IntegerWeights> written(const Tensor &q, const PerChannel &zero, int64_t axis) {
  IntegerWeights out{Tensor(Element::I8, q.shape()), {}};
  int8_t *values = out.values.mutableAs<int8_t>();
  const std::vector<int64_t> zeros(zero.begin(), zero.end());
  const bool fits = withInts(q, [&](const auto &w) {
    bool all = true;
    forEachOfChannels(q.shape(), axis, [&](int64_t i, size_t channel) {
      const int64_t v = w[i] - zeros[zeros.size() == 1 ? 0 : channel];
      all &= v >= -128 && v <= 127;
      values[i] = int8_t(v);
    });
    return all;
  });
  if (fits)
    return out;
  if (bitWidth(q.element()) != 8)
    return llvm::None;
  const int64_t middle = isSignedInt(q.element()) ? 0 : 128;
  withInts(q, [&](const auto &w) {
    for (int64_t i = 0; i < q.size(); ++i)
      values[i] = int8_t(w[i] - middle);
  });
  for (double z : zero)
    out.zeros.push_back(int64_t(z) - middle);
  return out;
}

} // namespace

Value *IntegerWeights::zerosOperand(Builder &b) const {
  if (!perChannel())
    return b.scalarConstant(Element::I8, double(zeros[0]));
  Tensor t(Element::I8, {int64_t(zeros.size())});
  for (size_t i = 0; i < zeros.size(); ++i)
    t.setInt(int64_t(i), zeros[i]);
  return b.constant(t);
}

llvm::Optional<IntegerWeights> integerWeights(const Dequantized &w) {
  const Literal q = constantValue(w.q);
  return written(*q, w.zero, w.axis);
}

// contraction(x, unsigned w, zx, zw) = contraction(x, signed w, zx, zw')
bool signedWeightsPattern(Operation &op, Rewriter &rw) {
  if (!op.isAny(Op::Conv, Op::MatMul) || op.numOperands() < 2 || op.find("block"))
    return false;
  const Literal w = constantValue(op.operand(1));
  if (!w || !isInteger(w->element()) || bitWidth(w->element()) != 8)
    return false;
  const Literal zero = op.numOperands() > 3 ? constantValue(op.operand(3)) : nullptr;
  if (op.numOperands() > 3 ? !zero : isSignedInt(w->element()))
    return false;
  PerChannel zeros{0.0};
  if (zero) {
    zeros.resize(size_t(zero->size()));
    zero->toDoubles(0, zero->size(), zeros.data());
  }
  const int64_t rank = w->rank();
  const int64_t axis = zeros.size() == 1        ? -1
                       : op.is(Op::Conv)        ? 0
                       : op.boolAttr("trans_b") ? rank - 2
                                                : rank - 1;
  const auto smaller = written(*w, zeros, axis);
  if (!smaller || (isSignedInt(w->element()) && !smaller->zeros.empty()) || !rw.fire(op))
    return false;
  Builder b = rw.before(op);
  llvm::SmallVector<Value *, 4> operands{op.operand(0),
                                         b.constant(smaller->values, op.operand(1)->hint())};
  if (op.numOperands() > 2)
    operands.push_back(op.operand(2));
  if (!smaller->zeros.empty()) {
    if (operands.size() == 2)
      operands.push_back(b.scalarConstant(op.operand(0)->type().element(), 0));
    operands.push_back(smaller->zerosOperand(b));
  }
  return rw.replace(op, b.value(op.kind(), operands, op.attributes()));
}

} // namespace tenon
