// Attention.
//
//   attention (q, k, v, bias?, part…, first?) {scale, factors, causal, window, softcap,
//                                              zero_undefined}
//     q [batch…, M, D], k [batch…, N, D], v [batch…, N, E] → [batch…, M, E], leading dimensions
//     broadcast:
//       score[m, n]  = cap(scale · Σ_d q[m, d] · k[n, d]) + bias[m, n] + Σ_i part_i[m, n_i]
//       weight[m, n] = e^(score[m, n] − largest[m]) / Σ_j e^(score[m, j] − largest[m])
//       y[m, e]      = Σ_n weight[m, n] · v[n, e]
//     where largest[m] is the largest score of query m. `bias` broadcasts to the scores
//     [batch…, M, N]; −∞ there hides a key from a query. cap(s) is s, or t · tanh(s / t) where
//     `softcap` is t.
//     `factors` [f₀, …] makes N = f₀ · f₁ · … a space of that many dimensions (rows and columns of
//     an image) in which key n has the coordinates n₀, n₁, …, the last running fastest. There is a
//     part for each, which broadcasts to [batch…, M, fᵢ]: positions relative to each other, say, of
//     which the sums are never stored.
//     Query m stands at position p = first + m, where `first` is an integer, or one for each entry
//     of the leading dimension, and 0 where it is missing; it is known by its type, so there may be
//     one without a bias. Hidden, as if that stood in the bias, are keys n
//       >= first + M   where there is `first`: rows of a cache that hold nothing yet
//       >  p + causal  with `causal`
//       <= p − window  with `window`
//
// Numeric rules. Scores, weights and sums are f32 (f64 for f64) whatever the operands' type, to
// which a bias of fewer bits is widened, and the result is rounded once; the interpreter computes
// all of it in double.
// Where weights meet values on Tensor Cores they are rounded to the values' type, not their sum.
// A query from which every key is hidden has no largest score: its weights are 0/0 and its result
// NaN, exactly what softmax and a matrix product give. With `zero_undefined` weights that are NaN
// count as 0. Where there are no keys at all (N = 0) the result is 0, a sum over nothing.
#include "ir/Attention.h"
#include "ir/Builder.h"
#include "ir/ops/Evaluate.h"
#include "ir/ops/Ops.h"

#include <cmath>

namespace tenon {
namespace {

/// What is added is of the type in which scores are computed, or has 16 bits, and broadcasts to
/// them, or to `scores`, of fewer keys.
bool checkAdded(const Operation &op, unsigned i, llvm::ArrayRef<Dim> scores, llvm::StringRef who,
                std::string &error) {
  const Type bias = op.operand(i)->type();
  const Element e = computeElement(op.operand(0)->type().element());
  if (bias.element() != e && bias.element() != Element::F16 && bias.element() != Element::BF16)
    return fail(error, who + ": expected element type " + name(e) + ", f16 or bf16, found " +
                           toString(bias));
  llvm::SmallVector<Dim, 6> both;
  if (!broadcastShapes({scores, bias.shape()}, both) || !sameShape(both, scores))
    return fail(error, who + ": expected a shape that broadcasts to the scores " + text(scores) +
                           ", found " + text(bias.shape()));
  return true;
}

/// As many parts as factors, whose product is the count of keys.
bool checkParts(const Operation &op, const AttentionOperands &at, llvm::ArrayRef<Dim> scores,
                std::string &error) {
  Context &context = op.operand(0)->type().context();
  Dim product = context.dim(1);
  llvm::SmallVector<Dim, 6> shape(scores.begin(), scores.end());
  for (unsigned i = 0; i < at.factors; ++i) {
    const int64_t extent = op.intsAttr("factors")[i];
    if (extent < 1)
      return fail(error, "attribute factors: expected extents of 1 or more, found " +
                             std::to_string(extent));
    product = product * context.dim(extent);
    shape.back() = context.dim(extent);
    if (!checkAdded(op, at.parts + i, shape, "part " + std::to_string(i), error))
      return false;
  }
  return at.factors == 0 || sameExtent(product, scores.back()) ||
         fail(error, "attribute factors: expected a product of " + text(scores.back()) +
                         ", the count of keys, found " + text(product));
}

/// An integer, or one for each entry of the scores' leading dimension.
bool checkFirst(const Operation &op, unsigned i, llvm::ArrayRef<Dim> scores, std::string &error) {
  const Type t = op.operand(i)->type();
  const bool fits = t.rank() == 0 || (t.rank() == 1 && scores.size() > 2 &&
                                      (t.dim(0).isConstant(1) || sameExtent(t.dim(0), scores[0])));
  return (fits && (t.element() == Element::I32 || t.element() == Element::I64)) ||
         fail(error, "first: expected an integer of i32 or i64, or one for each entry of the "
                     "leading dimension of " +
                         text(scores) + ", found " + toString(t));
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
  if (op.has("window") && op.intAttr("window") < 1)
    return fail(error, "attribute window: expected 1 or more, found " +
                           std::to_string(op.intAttr("window")));
  const double cap = op.floatAttr("softcap", 1);
  if (!std::isfinite(cap) || cap <= 0)
    return fail(error,
                "attribute softcap: expected a positive number, found " + std::to_string(cap));
  shape.push_back(q.dim(q.rank() - 2));
  shape.push_back(keys);
  for (unsigned i = 3; i < op.numOperands(); ++i)
    if (!checkTensor(op, i, -1, error))
      return false;
  const AttentionOperands at = attentionOperands(op);
  if (op.numOperands() != 3u + (at.bias != 0) + at.factors + (at.first != 0))
    return fail(error, "expected behind v a bias of floats, one part for each of " +
                           std::to_string(at.factors) +
                           " factors and `first` of integers, each but the parts optional; found " +
                           std::to_string(op.numOperands() - 3) + " operands");
  if ((at.bias && !checkAdded(op, at.bias, shape, "bias", error)) ||
      !checkParts(op, at, shape, error) || (at.first && !checkFirst(op, at.first, shape, error)))
    return false;
  shape.back() = v.shape().back();
  results.push_back(Type::tensor(q.context(), q.element(), shape));
  return true;
}

const llvm::StringRef kOperands[] = {"q", "k", "v", "bias, parts, first…"};
const AttrInfo kAttributes[] = {
    {"scale", AttrKind::Float, true, "factor of the products of queries and keys"},
    {"factors", AttrKind::Ints, false,
     "extents of the space that keys make, in which parts have their dimensions (default: no "
     "parts)"},
    {"causal", AttrKind::Int, false,
     "keys behind a query's position by more than this are hidden (default: none are)"},
    {"window", AttrKind::Int, false,
     "keys before a query's position by this or more are hidden (default: none are)"},
    {"softcap", AttrKind::Float, false, "t of scores t · tanh(score / t) (default: as they are)"},
    {"zero_undefined", AttrKind::Bool, false,
     "a query from which every key is hidden gives 0, not NaN (default false)"},
};

} // namespace

AttentionOperands attentionOperands(const Operation &attention) {
  AttentionOperands at;
  const unsigned count = attention.numOperands();
  auto hasIntegers = [&](unsigned i) {
    const Type t = attention.operand(i)->type();
    return t.isTensor() && isInteger(t.element());
  };
  if (count > 3 && hasIntegers(count - 1))
    at.first = count - 1;
  const unsigned floats = count - 3 - (at.first != 0);
  if (attention.has("factors"))
    at.factors = unsigned(attention.intsAttr("factors").size());
  if (floats > at.factors)
    at.bias = 3;
  if (at.factors > 0)
    at.parts = 3 + (at.bias != 0);
  return at;
}

AttentionFactor attentionFactor(const Operation &attention, unsigned i) {
  const Ints &factors = attention.intsAttr("factors");
  AttentionFactor f{1, factors[i]};
  for (size_t k = i + 1; k < factors.size(); ++k)
    f.step *= factors[k];
  return f;
}

llvm::ArrayRef<OpRow> attentionOps() {
  static const OpRow kRows[] = {
      {Op::Attention,
       {"attention", "Means of values, weighted by a softmax of products of queries and keys.",
        kOperands, kAttributes, 1, 0, OpTrait::None, inferAttention, nullptr, evaluateAttention}},
  };
  return kRows;
}

} // namespace tenon
