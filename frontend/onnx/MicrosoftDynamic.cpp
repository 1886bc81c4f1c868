// Imports com.microsoft's products of integers whose result is floating-point, activations
// quantised beforehand or by their own range.
#include "frontend/onnx/Heads.h"
#include "frontend/onnx/Operators.h"
#include "frontend/onnx/Quantize.h"

namespace tenon::frontend {
namespace {

/// Operand i is one number, or one per column of operand `weights`: [n], or [.., 1, n] with as many
/// dimensions as these. Reports otherwise.
bool checkPerColumn(Node &n, unsigned i, unsigned weights) {
  if (!n.has(i) || isOne(n.type(i)))
    return true;
  const Type t = n.type(i), w = n.type(weights);
  const unsigned last = t.rank() - 1;
  bool fits = w.rank() >= 2 && t.dim(last) == w.dim(w.rank() - 1) &&
              (t.rank() == 1 || (t.rank() == w.rank() && t.dim(last - 1).isConstant(1)));
  for (unsigned d = 0; fits && d + 2 < t.rank(); ++d)
    fits = t.dim(d) == w.dim(d);
  if (!fits)
    n.error("operand " + n.inputName(i) + ": expected one number or one per column of " +
            toString(w) + ", found " + toString(t));
  return fits;
}

/// [.., 1, n] with nothing before the columns as [n], one number as [].
Value *columns(Builder &b, Value *v) {
  if (!v || isOne(v->type()))
    return v ? asScalar(b, v) : nullptr;
  const Type t = v->type();
  const Dim last = t.dim(t.rank() - 1);
  return t.elements() == last ? b.reshape(v, {last}) : v;
}

/// What a · b, of integers, is as numbers, plus `bias`; in the type of the scale of b.
Value *realProduct(Node &n, Value *a, Value *aScale, Value *aZero, unsigned b, unsigned bScale,
                   unsigned bZero, unsigned bias) {
  if (!a || !aScale || !checkPerColumn(n, bScale, b) || !checkPerColumn(n, bZero, b))
    return nullptr;
  // Sums beyond the range of 16-bit floats are common: one rounding at the end.
  const Element e = n.element(bScale), wide = computeType(e);
  auto cast = [&](Value *v) { return v ? n.b.cast(v, wide) : nullptr; };
  Value *acc =
      matmul(n.b, a, n.input(b), zeroPoints(n, a, aZero, columns(n.b, n.input(bZero))), {});
  Value *scale =
      n.b.pointwise(Op::Mul, {cast(columns(n.b, n.input(bScale))), cast(asScalar(n.b, aScale))});
  Value *y = scaledSum(n.b, acc, scale, cast(n.input(bias)));
  if (y && y->type().shape() != acc->type().shape())
    return n.error("scales and bias do not fit the product " + toString(acc->type()) +
                   ": expected one number per column, found " + toString(n.type(bScale)) +
                   (n.has(bias) ? " and " + toString(n.type(bias)) : ""));
  return y ? n.b.cast(y, e) : nullptr;
}

} // namespace

void importDynamicQuantizeMatMul(Node &n) {
  enum { A, B, BScale, BZero, Bias };
  if (!n.checkFloat(A))
    return;
  const Dynamic a = quantizedByRange(n.b, n.input(A));
  n.set(0, realProduct(n, a.bytes, a.scale, a.zero, B, BScale, BZero, Bias));
}

void importMatMulIntegerToFloat(Node &n) {
  enum { A, B, AScale, BScale, AZero, BZero, Bias };
  if (checkOne(n, {AScale}) && (!n.has(AZero) || checkOne(n, {AZero})))
    n.set(0, realProduct(n, n.input(A), n.input(AScale), n.input(AZero), B, BScale, BZero, Bias));
}

void importQAttention(Node &n) {
  enum { X, Weights, Bias, XScale, WScale, Mask, XZero, WZero, Past };
  if (!n.checkRank(X, 3, 3) || !n.checkRank(Weights, 2, 2) || !checkOne(n, {XScale}) ||
      (n.has(XZero) && !checkOne(n, {XZero})))
    return;
  attendProjected(
      n, realProduct(n, n.input(X), n.input(XScale), n.input(XZero), Weights, WScale, WZero, Bias),
      {Mask, kNone, Past});
}

} // namespace tenon::frontend
