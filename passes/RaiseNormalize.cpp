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
//
// Rows that are divided by their length, as queries and keys of some attention are, are the root
// mean square, scaled.
//
// A group norm is a normalize between reshapes, which part the channels and join them again, with a
// scale of channels behind: that is no epilogue of the normalize as long as a reshape stands
// between.
//
//   %y = normalize (reshape %x)        →   %z = map (normalize (reshape %x)), (reshape %s)
//   %z = map (reshape %y), %s              reshape %z
//
// Both are over the coarsest space that the extents on both sides of the reshape are products of,
// in which an image stays one whose pixels have their channels side by side.
#include "passes/RaiseNormalize.h"

#include "passes/Maps.h"
#include "passes/Rewrite.h"

#include <cmath>

namespace tenon {
namespace {

/// The one function that makes `v` of one tensor, point by point; null where there is more.
Operation *soleFunction(Value *v) {
  Operation *map = v->def();
  return isPlainMap(map, 1) && isIdentityMap(indexMap(*map, 0), v->type().rank()) &&
                 map->operand(0)->type().shape() == v->type().shape()
             ? soleScalar(*map)
             : nullptr;
}

/// For `v` = kind(u), point by point, perhaps with a constant as one operand: u; else null.
Value *through(Value *v, Op kind, llvm::Optional<double> *constant = nullptr) {
  Operation *s = soleFunction(v);
  if (!s || !s->is(kind))
    return nullptr;
  Operation *map = v->def();
  Value *element = map->region().argument(0);
  if (!constant)
    return s->numOperands() == 1 && s->operand(0) == element ? map->operand(0) : nullptr;
  if (s->numOperands() != 2)
    return nullptr;
  const bool commutes = s->isAny(Op::Add, Op::Mul, Op::Max);
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

/// Whether operand i of a map has the map's dimensions without `axes`; where there is but one
/// index, it may be left out.
bool readsWithout(const Operation &map, unsigned i, const Ints &axes) {
  const Type t = map.result()->type();
  IndexMap m = indexMap(map, i);
  auto at = m.begin();
  for (int64_t d = 0; d < int64_t(t.rank()); ++d) {
    if (llvm::is_contained(axes, d))
      continue;
    if (at == m.end() || (*at != d && !(*at < 0 && t.dim(unsigned(d)).isConstant(1))))
      return false;
    ++at;
  }
  return at == m.end();
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

/// For `v` = 1 / u, point by point: u; else null.
Value *throughReciprocal(Value *v) {
  if (Value *u = through(v, Op::Reciprocal))
    return u;
  const Operation *s = soleFunction(v);
  return s && s->is(Op::Div) && s->operand(1) == v->def()->region().argument(0) &&
                 scalarValue(s->operand(0)) == llvm::Optional<double>(1.0)
             ? v->def()->operand(0)
             : nullptr;
}

/// What stands under the root or its reciprocal: for a deviation, the variance and epsilon.
Value *throughRoot(Value *v, bool divides) {
  if (divides)
    return through(v, Op::Sqrt);
  if (Value *u = through(v, Op::Rsqrt))
    return u;
  Value *root = throughReciprocal(v);
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
  if (!squares || throughSquare(squares) != deviation || !readsWithout(op, kept, axes))
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
               readsWithout(*difference, kept, axes);
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
  return rw.replace(op, b.cast(y, op.result()->type().element()));
}

/// For `v` = max(u, bound) of a small bound, perhaps 0: u; else `v`, without a bound.
Value *throughBound(Value *v, double &bound) {
  bound = 0;
  if (Value *u = through(v, Op::Relu))
    return u;
  llvm::Optional<double> least;
  Value *u = through(v, Op::Max, &least);
  if (!u)
    return v;
  bound = *least;
  return u;
}

/// Whether rows of `v` are a transpose's, whose elements lie apart: a sum over them reads many rows
/// side by side, which a normalize, a row at a time, does not.
bool liesAcross(const Value *v) {
  const Operation *def = v->def();
  while (def && def->isAny(Op::Reshape, Op::Slice))
    def = def->operand(0)->def();
  return def && def->is(Op::Transpose) &&
         def->intsAttr("perm").back() != int64_t(def->intsAttr("perm").size()) - 1;
}

// x / max(sqrt(sum(x * x)), e) = normalize(x) / sqrt(n): rows of length 1. e keeps rows of zeros,
// and is so small that no other is as short; its square is added instead
bool lengthPattern(Operation &op, Rewriter &rw) {
  constexpr double kSmall = 1e-6;
  unsigned whole, kept;
  if (!combines(&op, Op::Div, whole, kept) || !isFloat(op.result()->type().element()))
    return false;
  Value *x = op.operand(whole);
  double least;
  Value *sum = through(throughBound(op.operand(kept), least), Op::Sqrt);
  Ints axes;
  Value *squares = sum && least >= 0 && least <= kSmall ? throughSum(sum, axes) : nullptr;
  if (!squares || throughSquare(squares) != x || !readsWithout(op, kept, axes) || liesAcross(x))
    return false;
  double count = 1;
  for (int64_t a : axes) {
    const Dim extent = x->type().dim(unsigned(a));
    if (!extent.isConstant() || extent.constant() == 0)
      return false;
    count *= double(extent.constant());
  }
  if (!rw.fire(op))
    return false;
  Builder b = rw.before(op);
  mergeLocation(b.location, squares->def()->loc());
  Value *y =
      b.value(Op::Normalize, {x},
              {{"axes", axes}, {"epsilon", least * least / count}, {"centered", Attribute(false)}});
  Value *scale = y ? b.scalarConstant(y->type().element(), 1 / std::sqrt(count)) : nullptr;
  Value *z = scale ? b.pointwise(Op::Mul, {y, scale}) : nullptr;
  return z && rw.replace(op, b.cast(z, op.result()->type().element()));
}

/// A space whose extents multiply to those of two others, and in which dimensions of it each
/// dimension of those lies: none for one of extent 1 that the other space lacks.
struct Refinement {
  IterationSpace space;
  std::vector<Ints> ofFirst, ofSecond;
};

/// None where extents of the two do not divide each other.
llvm::Optional<Refinement> refine(Context &context, llvm::ArrayRef<Dim> first,
                                  llvm::ArrayRef<Dim> second) {
  // From the innermost dimension on; `space` and the places in it are turned round at the end.
  Refinement r;
  r.ofFirst.resize(first.size());
  r.ofSecond.resize(second.size());
  size_t i = first.size(), j = second.size();
  llvm::Optional<Dim> a, b; // what is left of first[i], second[j]
  while (true) {
    if (!a && i > 0)
      a = first[--i];
    if (!b && j > 0)
      b = second[--j];
    if (!a && !b)
      break;
    const bool same = a && b && *a == *b;
    if (!same && a && a->isConstant(1)) {
      a = llvm::None;
      continue;
    }
    if (!same && b && b->isConstant(1)) {
      b = llvm::None;
      continue;
    }
    if (!a || !b || (!same && !(a->isConstant() && b->isConstant())))
      return llvm::None;
    r.ofFirst[i].push_back(int64_t(r.space.size()));
    r.ofSecond[j].push_back(int64_t(r.space.size()));
    if (same) {
      r.space.push_back(*a);
      a = b = llvm::None;
      continue;
    }
    const int64_t m = a->constant(), n = b->constant();
    if (m == 0 || n == 0 || (m > n ? m % n : n % m))
      return llvm::None;
    r.space.push_back(m > n ? *b : *a);
    if (m > n)
      a = context.dim(m / n), b = llvm::None;
    else
      b = context.dim(n / m), a = llvm::None;
  }
  std::reverse(r.space.begin(), r.space.end());
  for (std::vector<Ints> *places : {&r.ofFirst, &r.ofSecond})
    for (Ints &of : *places) {
      for (int64_t &d : of)
        d = int64_t(r.space.size()) - 1 - d;
      std::reverse(of.begin(), of.end());
    }
  return r;
}

/// Whether a normalize is behind a value, and nothing but maps and reshapes between.
bool comesOfNormalize(Value *v) {
  while (Operation *def = v->def()) {
    if (def->is(Op::Normalize))
      return true;
    if (!def->is(Op::Reshape) && !def->is(Op::Map))
      return false;
    unsigned next = 0;
    if (def->is(Op::Map))
      while (next < def->numOperands() && !readsInPlace(*def, next))
        ++next;
    if (next == def->numOperands())
      return false;
    v = def->operand(next);
  }
  return false;
}

bool isRowMajor(const Value *v) { return v->type().layout().isRowMajor(); }

/// Whether a map reads, beside what comes of a normalize, another tensor over its whole space.
bool joinsAnother(const Operation &map) {
  for (unsigned i = 0; i < map.numOperands(); ++i)
    if (readsInPlace(map, i) && !constantValue(map.operand(i)) && !comesOfNormalize(map.operand(i)))
      return true;
  return false;
}

// map(reshape(normalize x), c) = reshape(map(normalize x, c)); where the map joins another tensor,
// only what nothing else reads, since that tensor is reshaped for it
bool scalePattern(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Map) || llvm::any_of(op.region(), [](Operation &s) { return s.is(Op::Index); }))
    return false;
  Operation *reshape = nullptr;
  for (unsigned i = 0; i < op.numOperands() && !reshape; ++i) {
    Operation *def = op.operand(i)->def();
    if (def && def->is(Op::Reshape) && readsInPlace(op, i) && comesOfNormalize(def->operand(0)))
      reshape = def;
  }
  if (!reshape || !isRowMajor(reshape->operand(0)) || !llvm::all_of(op.results(), isRowMajor) ||
      !llvm::all_of(op.operands(), isRowMajor))
    return false;
  if (joinsAnother(op) && !(reshape->result()->hasOneUse() && reshape->operand(0)->hasOneUse()))
    return false;
  const auto refined = refine(op.result()->type().context(), reshape->operand(0)->type().shape(),
                              iterationSpace(op));
  if (!refined || refined->space == iterationSpace(op) || !rw.fire(op))
    return false;
  Builder b = rw.before(op);
  mergeLocation(b.location, reshape->loc());
  llvm::SmallVector<Value *, 4> operands;
  IntLists maps;
  for (unsigned i = 0; i < op.numOperands(); ++i) {
    Value *v = op.operand(i);
    IterationSpace shape;
    IndexMap map;
    for (unsigned d = 0; d < v->type().rank(); ++d) {
      const int64_t along = indexMap(op, i)[d];
      if (along < 0 || refined->ofSecond[size_t(along)].empty()) {
        shape.push_back(v->type().dim(d));
        map.push_back(-1);
        continue;
      }
      for (int64_t part : refined->ofSecond[size_t(along)]) {
        shape.push_back(refined->space[size_t(part)]);
        map.push_back(part);
      }
    }
    for (Operation *def = v->def(); def && def->is(Op::Reshape) && isRowMajor(def->operand(0));
         def = v->def())
      v = def->operand(0);
    if (v->type().shape() != llvm::ArrayRef<Dim>(shape))
      v = b.reshape(v, shape);
    operands.push_back(v);
    maps.push_back(map);
  }
  Operation *map = mapOver(b, op, operands, maps, refined->space, {});
  if (!map)
    return false;
  return rw.replace(op, reshapedResults(b, *map, op));
}

// normalize(reshape x) = reshape(normalize(reshape x)), over the dimensions that x has where its
// rows are several of them
bool splitPattern(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Normalize))
    return false;
  Operation *reshape = op.operand(0)->def();
  if (!reshape || !reshape->is(Op::Reshape) || !isRowMajor(op.result()) ||
      !isRowMajor(op.operand(0)) || !isRowMajor(reshape->operand(0)))
    return false;
  Value *x = reshape->operand(0);
  const Type given = op.operand(0)->type();
  const auto refined = refine(given.context(), given.shape(), x->type().shape());
  if (!refined)
    return false;
  Ints axes;
  for (int64_t a : op.intsAttr("axes"))
    llvm::append_range(axes, refined->ofFirst[size_t(a)]);
  if (axes.size() <= op.intsAttr("axes").size() || !rw.fire(op))
    return false;
  llvm::sort(axes);
  Builder b = rw.before(op);
  mergeLocation(b.location, reshape->loc());
  Value *y = b.value(Op::Normalize, {b.reshape(x, refined->space)},
                     {{"axes", axes},
                      {"epsilon", op.floatAttr("epsilon")},
                      {"centered", op.boolAttr("centered")}});
  if (!y)
    return false;
  return rw.replace(op, b.reshape(y, given.shape()));
}

const Pattern kPatterns[] = {{"raise-normalize.map", normalizePattern},
                             {"raise-normalize.length", lengthPattern},
                             {"raise-normalize.scale", scalePattern},
                             {"raise-normalize.split", splitPattern}};

} // namespace

bool runRaiseNormalize(Graph &graph, PassContext &context) {
  return applyPatterns(graph, context, kPatterns);
}

} // namespace tenon
