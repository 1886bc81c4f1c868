// Attention.
//
//   attention (q, k, v, bias?) {scale, causal, zero_undefined}
//     q [batch…, M, D], k [batch…, N, D], v [batch…, N, E] → [batch…, M, E], leading dimensions
//     broadcast:
//       score[m, n]  = scale · Σ_d q[m, d] · k[n, d] + bias[m, n]
//       weight[m, n] = e^(score[m, n] − largest[m]) / Σ_j e^(score[m, j] − largest[m])
//       y[m, e]      = Σ_n weight[m, n] · v[n, e]
//     where largest[m] is the largest score of query m. `bias` broadcasts to the scores
//     [batch…, M, N]; −∞ there hides a key from a query. With `causal`, keys n > m + causal are
//     hidden from query m, as if that stood in the bias.
//
// Numeric rules. Scores, weights and sums are f32 (f64 for f64) whatever the operands' type, the
// bias is so, too, and the result is rounded once; the interpreter computes all of it in double.
// Where weights meet values on Tensor Cores they are rounded to the values' type, not their sum.
// A query from which every key is hidden has no largest score: its weights are 0/0 and its result
// NaN, exactly what softmax and a matrix product give. With `zero_undefined` weights that are NaN
// count as 0. Where there are no keys at all (N = 0) the result is 0, a sum over nothing.
#include "ir/Builder.h"
#include "ir/ops/Evaluate.h"
#include "ir/ops/Ops.h"

#include <cmath>

namespace tenon {
namespace {

/// The bias is of the type in which scores are computed, and broadcasts to them.
bool checkBias(const Operation &op, llvm::ArrayRef<Dim> scores, std::string &error) {
  if (!checkTensor(op, 3, -1, error))
    return false;
  const Type bias = op.operand(3)->type();
  const Element e = computeElement(op.operand(0)->type().element());
  if (bias.element() != e)
    return fail(error, "bias: expected element type " + name(e) + ", found " + toString(bias));
  llvm::SmallVector<Dim, 6> both;
  if (!broadcastShapes({scores, bias.shape()}, both) || !sameShape(both, scores))
    return fail(error, "bias: expected a shape that broadcasts to the scores " + text(scores) +
                           ", found " + text(bias.shape()));
  return true;
}

bool inferAttention(const Operation &op, llvm::SmallVectorImpl<Type> &results, std::string &error) {
  if (!checkForm(op, error))
    return false;
  for (unsigned i = 0; i < 3; ++i) {
    if (!checkTensor(op, i, -1, error))
      return false;
    const Type t = op.operand(i)->type();
    if (t.rank() < 2)
      return fail(error, op.info().operands[i] + ": expected rank 2 or more, found " + toString(t));
    if (!isFloat(t.element()) || bitWidth(t.element()) < 16 ||
        t.element() != op.operand(0)->type().element())
      return fail(error, op.info().operands[i] +
                             ": expected one floating-point type of 16 bits or more for q, k and "
                             "v, found " +
                             toString(t));
  }
  const Type q = op.operand(0)->type(), k = op.operand(1)->type(), v = op.operand(2)->type();
  const Dim depth = q.shape().back(), keys = k.dim(k.rank() - 2);
  if (!sameExtent(k.shape().back(), depth))
    return fail(error,
                "k: expected rows of " + text(depth) + " elements as in q, found " + toString(k));
  if (!sameExtent(v.dim(v.rank() - 2), keys))
    return fail(error,
                "v: expected " + text(keys) + " rows, one for each of k, found " + toString(v));
  llvm::SmallVector<Dim, 6> shape;
  if (!broadcastShapes({q.shape().drop_back(2), k.shape().drop_back(2), v.shape().drop_back(2)},
                       shape))
    return fail(error, "leading dimensions do not broadcast: " + toString(q) + ", " + toString(k) +
                           " and " + toString(v));
  const double scale = op.floatAttr("scale");
  if (!std::isfinite(scale))
    return fail(error, "attribute scale: expected a finite number, found " + std::to_string(scale));
  if (op.has("causal") && op.intAttr("causal") < 0)
    return fail(error, "attribute causal: expected 0 or more, found " +
                           std::to_string(op.intAttr("causal")));
  shape.push_back(q.dim(q.rank() - 2));
  shape.push_back(keys);
  if (op.numOperands() > 3 && !checkBias(op, shape, error))
    return false;
  shape.back() = v.shape().back();
  results.push_back(Type::tensor(q.context(), q.element(), shape));
  return true;
}

const llvm::StringRef kOperands[] = {"q", "k", "v", "bias?"};
const AttrInfo kAttributes[] = {
    {"scale", AttrKind::Float, true, "factor of the products of queries and keys"},
    {"causal", AttrKind::Int, false,
     "keys n > m + causal are hidden from query m (default: none are)"},
    {"zero_undefined", AttrKind::Bool, false,
     "a query from which every key is hidden gives 0, not NaN (default false)"},
};

} // namespace

llvm::ArrayRef<OpRow> attentionOps() {
  static const OpRow kRows[] = {
      {Op::Attention,
       {"attention", "Means of values, weighted by a softmax of products of queries and keys.",
        kOperands, kAttributes, 1, 0, OpTrait::None, inferAttention, nullptr, evaluateAttention}},
  };
  return kRows;
}

} // namespace tenon
