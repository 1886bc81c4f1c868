// raise-normalize: normalisations that were exported as reductions and maps become one operation.
//
//   %m = mean of %x over axes          →   %y = normalize %x {axes, epsilon, centered = true}
//   %d = %x - %m
//   %v = mean of %d * %d over axes
//   %y = %d / sqrt(%v + epsilon)
//
// Without the subtraction it is the root mean square (centered = false). A mean is a sum and a
// scale by 1 / n; the last step may also be a product with rsqrt or with the reciprocal of sqrt.
// Intermediate values that are needed elsewhere stay. Statistics move to f32 where they were
// narrower, which is what such graphs want and cannot say.
#include "passes/RaiseNormalize.h"

#include "passes/Maps.h"
#include "passes/Rewrite.h"

#include <cmath>

namespace tenon {
namespace {

/// For `v` = kind(u), point by point, perhaps with a constant as one operand: u; else null.
Value *through(Value *v, Op kind, llvm::Optional<double> *constant = nullptr) {
  Operation *map = v->def();
  if (!isPlainMap(map, 1) || !isIdentityMap(indexMap(*map, 0), v->type().rank()) ||
      map->operand(0)->type().shape() != v->type().shape())
    return nullptr;
  Operation *s = soleScalar(*map);
  Value *element = map->region().argument(0);
  if (!s || !s->is(kind))
    return nullptr;
  if (!constant)
    return s->numOperands() == 1 && s->operand(0) == element ? map->operand(0) : nullptr;
  if (s->numOperands() != 2)
    return nullptr;
  const bool commutes = s->isAny(Op::Add, Op::Mul);
  for (unsigned i = 0; i < (commutes ? 2 : 1); ++i)
    if (s->operand(i) == element && (*constant = scalarValue(s->operand(1 - i))))
      return map->operand(0);
  return nullptr;
}

/// For `v` = sum of u over axes: u; else null.
Value *throughSum(Value *v, Ints &axes) {
  Operation *op = v->def();
  if (!op || !op->is(Op::Reduce) || op->numOperands() != 1 || op->numResults() != 1 ||
      op->floatsAttr("init")[0] != 0 ||
      !isIdentityMap(indexMap(*op, 0), op->operand(0)->type().rank()))
    return nullptr;
  Operation *s = soleScalar(*op);
  if (!s || !s->is(Op::Add))
    return nullptr;
  Region &body = op->region();
  const bool sums = (s->operand(0) == body.argument(0) && s->operand(1) == body.argument(1)) ||
                    (s->operand(1) == body.argument(0) && s->operand(0) == body.argument(1));
  axes = op->intsAttr("axes");
  return sums ? op->operand(0) : nullptr;
}

/// For `v` = mean of u over axes: u; else null.
Value *throughMean(Value *v, Ints &axes) {
  llvm::Optional<double> scale;
  Value *sum = through(v, Op::Mul, &scale);
  if (!sum && (sum = through(v, Op::Div, &scale)))
    *scale = 1 / *scale;
  Value *u = sum ? throughSum(sum, axes) : nullptr;
  if (!u)
    return nullptr;
  double count = 1;
  for (int64_t a : axes) {
    const Dim extent = u->type().dim(unsigned(a));
    if (!extent.isConstant())
      return nullptr;
    count *= double(extent.constant());
  }
  // n - 1 is another statistic, and must not pass for n.
  return std::fabs(*scale * count - 1) < 1e-6 ? u : nullptr;
}

/// For `v` = d * d, point by point: d; else null.
Value *throughSquare(Value *v) {
  llvm::Optional<double> exponent;
  if (Value *d = through(v, Op::Pow, &exponent))
    return *exponent == 2 ? d : nullptr;
  Operation *map = v->def();
  if (!map || !map->is(Op::Map) || map->numResults() != 1 || map->numOperands() < 1)
    return nullptr;
  Operation *s = soleScalar(*map);
  if (!s || !s->is(Op::Mul))
    return nullptr;
  for (unsigned i = 0; i < map->numOperands(); ++i)
    if (map->operand(i) != map->operand(0) || !isIdentityMap(indexMap(*map, i), v->type().rank()) ||
        map->operand(i)->type().shape() != v->type().shape())
      return nullptr;
  auto isElement = [&](Value *x) { return !x->def(); };
  return isElement(s->operand(0)) && isElement(s->operand(1)) ? map->operand(0) : nullptr;
}

/// The dimensions of a value of `rank` without `axes`.
IndexMap without(const Ints &axes, unsigned rank) {
  IndexMap m;
  for (int64_t d = 0; d < int64_t(rank); ++d)
    if (!llvm::is_contained(axes, d))
      m.push_back(d);
  return m;
}

/// A map of a whole tensor (the first found) and one that lacks `axes`, by one operation on both.
/// Gives the positions of the two; false otherwise.
bool combines(Operation *map, Op kind, unsigned &whole, unsigned &kept) {
  if (!isPlainMap(map, 2))
    return false;
  Operation *s = soleScalar(*map);
  if (!s || !s->is(kind) || s->numOperands() != 2)
    return false;
  const unsigned rank = map->result()->type().rank();
  for (whole = 0; whole < 2; ++whole) {
    kept = 1 - whole;
    const bool inOrder = s->operand(0) == map->region().argument(whole) &&
                         s->operand(1) == map->region().argument(kept);
    const bool swapped = kind == Op::Mul && s->operand(1) == map->region().argument(whole) &&
                         s->operand(0) == map->region().argument(kept);
    if ((inOrder || swapped) && isIdentityMap(indexMap(*map, whole), rank) &&
        map->operand(whole)->type().shape() == map->result()->type().shape() &&
        map->operand(kept)->type().rank() < rank)
      return true;
  }
  return false;
}

/// What stands under the root or its reciprocal: for a deviation, the variance and epsilon.
Value *throughRoot(Value *v, bool divides) {
  if (divides)
    return through(v, Op::Sqrt);
  if (Value *u = through(v, Op::Rsqrt))
    return u;
  Value *root = through(v, Op::Reciprocal);
  return root ? through(root, Op::Sqrt) : nullptr;
}

bool normalizePattern(Operation &op, Rewriter &rw) {
  unsigned whole, kept;
  const bool divides = combines(&op, Op::Div, whole, kept);
  if (!divides && !combines(&op, Op::Mul, whole, kept))
    return false;
  Value *deviation = op.operand(whole), *under = throughRoot(op.operand(kept), divides);
  if (!under || !isFloat(deviation->type().element()))
    return false;
  llvm::Optional<double> epsilon;
  Value *variance = through(under, Op::Add, &epsilon);
  Ints axes;
  Value *squares = throughMean(variance ? variance : under, axes);
  if (!squares || throughSquare(squares) != deviation ||
      indexMap(op, kept) != without(axes, op.result()->type().rank()))
    return false;
  const double added = variance ? *epsilon : 0;
  if (!(added >= 0))
    return false;

  Value *x = deviation;
  bool centered = false;
  Operation *difference = deviation->def();
  if (combines(difference, Op::Sub, whole, kept)) {
    Ints same;
    Value *from = difference->operand(whole);
    centered = throughMean(difference->operand(kept), same) == from && same == axes &&
               indexMap(*difference, kept) == without(axes, from->type().rank());
    if (centered)
      x = from;
  }
  if (!rw.fire(op))
    return false;
  Builder b = rw.before(op);
  mergeLocation(b.location, squares->def()->loc());
  if (centered)
    mergeLocation(b.location, difference->loc());
  Value *y =
      b.value(Op::Normalize, {x}, {{"axes", axes}, {"epsilon", added}, {"centered", centered}});
  if (!y)
    return false;
  rw.replace(op, b.cast(y, op.result()->type().element()));
  return true;
}

const Pattern kPatterns[] = {{"raise-normalize.map", normalizePattern}};

} // namespace

bool runRaiseNormalize(Graph &graph, PassContext &context) {
  return applyPatterns(graph, context, kPatterns);
}

} // namespace tenon
