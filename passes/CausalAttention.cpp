// causal-attention: a constant bias by which queries see no later keys becomes an attribute, so
// that kernels leave out the scores that it hides.
//
//   %b = constant … : 0 on and below a diagonal, −∞ above
//   %y = attention %q, %k, %v, %b {scale}    →    %y = attention %q, %k, %v {causal, scale}
//
// With s(m, n) a score, b(m, n) the bias and h a number that hides the key (kHides or less):
//   b(m, n) = h for all n > m + causal   ⇒   s(m, n) + b(m, n) weighs nothing there
// where every query sees a key, since an h other than −∞ hides nothing from a query from which it
// hides all. The bias stays where it is not 0 on and below the diagonal (positions that cost,
// windows). The smallest `causal` that holds is taken.
//
// The bias may be computed, too, as long as it is from constants: whatever makes it is evaluated.
//
// So does a bias that follows from the positions of query and key and from extents alone
// (passes/PositionMask.h), which a decoder's exporter computes from the length of the cache. With
// F = N − M rows of keys before the first query:
//   b(m, n) = 0 where n <= m + F and n > m + F − window, else h   →   {causal = 0, window}, first =
//   F
// and without `first` where F is known. A bias that is 0 everywhere, made of a mask of ones, goes.
// Where it is the sum of such a mask and of something else (slopes of distances), that stays, often
// with the queries' dimension no more.
#include "passes/CausalAttention.h"

#include "passes/Maps.h"
#include "passes/PositionMask.h"
#include "passes/Rewrite.h"

#include "ir/Attention.h"
#include "ir/Interpreter.h"

namespace tenon {
namespace {

/// From here down a number added to a score leaves nothing of it in f32.
constexpr double kHides = -1e30;
/// Numbers of a bias that are looked at.
constexpr int64_t kMostElements = int64_t(1) << 26;

/// What `v` is, where it is computed from constants alone.
llvm::Optional<Tensor> evaluated(const Value *v) {
  if (Literal l = constantValue(v))
    return *l;
  const Operation *op = v->def();
  if (!op || op->numResults() != 1 || !v->type().isTensor() || !v->type().hasStaticShape() ||
      v->type().upperElements() > kMostElements || holdsStructured(*op) ||
      (op->info().traits & OpTrait::Effect))
    return llvm::None;
  llvm::SmallVector<Tensor, 4> operands;
  for (const Value *x : op->operands()) {
    auto known = evaluated(x);
    if (!known)
      return llvm::None;
    operands.push_back(std::move(*known));
  }
  llvm::SmallVector<Tensor, 2> results;
  std::string error;
  if (!evaluateConstant(*op, operands, results, error))
    return llvm::None;
  return results.front();
}

struct Diagonal {
  int64_t causal;
  bool zeroBelow; // on and below it all numbers are 0
};

/// The lowest diagonal above which `bias` [..., m, n] hides every key; None where that leaves out
/// none, or where a query sees no key at all.
llvm::Optional<Diagonal> diagonalOf(const Tensor &bias, int64_t m, int64_t n) {
  if (bias.rank() < 2 || bias.shape()[bias.rank() - 2] != m || bias.shape().back() != n || m == 0 ||
      n == 0)
    return llvm::None;
  std::vector<double> row(static_cast<size_t>(n));
  Diagonal d{0, true};
  for (int64_t r = 0; r < bias.size() / n; ++r) {
    bias.toDoubles(r * n, n, row.data());
    const auto seen = [](double x) { return !(x <= kHides); };
    const auto last = std::find_if(row.rbegin(), row.rend(), seen);
    if (last == row.rend())
      return llvm::None;
    d.causal = std::max(d.causal, (row.rend() - last) - 1 - r % m);
  }
  if (d.causal >= n - 1)
    return llvm::None;
  for (int64_t r = 0; r < bias.size() / n && d.zeroBelow; ++r) {
    const int64_t count = std::min(n, r % m + d.causal + 1);
    bias.toDoubles(r * n, count, row.data());
    d.zeroBelow = std::all_of(row.begin(), row.begin() + count, [](double x) { return x == 0; });
  }
  return d;
}

// attention(q, k, v, b) = attention(q, k, v) {causal}, b 0 up to a diagonal and hiding beyond it
bool maskPattern(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Attention) || op.numOperands() != 4 || !attentionOperands(op).bias ||
      op.has("causal"))
    return false;
  const Type q = op.operand(0)->type(), k = op.operand(1)->type();
  const Dim m = q.dim(q.rank() - 2), n = k.dim(k.rank() - 2);
  if (!m.isConstant() || !n.isConstant())
    return false;
  const auto bias = evaluated(op.operand(3));
  if (!bias)
    return false;
  const auto diagonal = diagonalOf(*bias, m.constant(), n.constant());
  if (!diagonal || !rw.fire(op))
    return false;
  NamedAttributes attributes = op.attributes();
  attributes.insert_or_assign("causal", Attribute(diagonal->causal));
  llvm::SmallVector<Value *, 4> operands{op.operand(0), op.operand(1), op.operand(2)};
  if (!diagonal->zeroBelow)
    operands.push_back(op.operand(3));
  Builder b = rw.before(op);
  return rw.replace(op, b.value(Op::Attention, operands, std::move(attributes)));
}

/// An extent as a number.
Value *extentOf(Builder &b, Value *v, unsigned axis) {
  Value *shape = b.value(Op::ShapeOf, {v});
  Context &c = b.context();
  shape =
      shape
          ? b.value(Op::Slice, {shape},
                    {{"starts", Dims{c.dim(axis)}}, {"sizes", Dims{c.dim(1)}}, {"steps", Ints{1}}})
          : nullptr;
  return shape ? b.reshape(shape, {}) : nullptr;
}

/// As a number, an extent that one of the values which `v` is made of has, such as the cache that
/// keys are appended to; null where none is near.
Value *extentNear(Builder &b, Value *v, Dim extent) {
  constexpr size_t most = 32; // values that are looked at
  llvm::SmallVector<Value *, 32> seen{v};
  for (size_t i = 0; i < seen.size(); ++i) {
    const llvm::ArrayRef<Dim> shape = seen[i]->type().shape();
    if (const auto *it = llvm::find(shape, extent); it != shape.end())
      return extentOf(b, seen[i], unsigned(it - shape.begin()));
    if (Operation *def = seen[i]->def())
      for (Value *x : def->operands())
        if (seen.size() < most && x->type().isTensor() && !llvm::is_contained(seen, x))
          seen.push_back(x);
  }
  return nullptr;
}

/// By which distance before and behind a query's position keys are hidden; the position is that of
/// the query's number behind `before` others.
struct Visible {
  llvm::Optional<int64_t> causal, window;
};
llvm::Optional<Visible> visibleBy(const PositionMask &mask, Dim before) {
  Visible v;
  for (const MaskPlace &p : mask.seen) {
    const bool later = p.key == -1 && p.query == 1, earlier = p.key == 1 && p.query == -1;
    // n <= m + base, n >= m − base.
    const Dim distance = later ? p.base - before : p.base + before + 1;
    llvm::Optional<int64_t> &bound = later ? v.causal : v.window;
    if ((!later && !earlier) || !distance.isConstant())
      return llvm::None;
    bound = bound ? std::min(*bound, distance.constant()) : distance.constant();
  }
  const bool seesItself = (!v.causal || *v.causal >= 0) && (!v.window || *v.window >= 1);
  return seesItself ? llvm::Optional<Visible>(v) : llvm::None;
}

bool hidesByPositions(const llvm::Optional<PositionMask> &mask) {
  return mask && (mask->seen.empty() || mask->outside <= kHidingScore);
}

/// The shape of operand i of a map with all of the map's dimensions, 1 where it has none; empty
/// where it has them in another order.
IterationSpace shapeInFull(const Operation &map, unsigned i) {
  const Type x = map.operand(i)->type(), space = map.result()->type();
  IterationSpace shape(space.rank(), space.context().dim(1));
  int64_t last = -1;
  for (unsigned d = 0; d < x.rank(); ++d) {
    if (x.dim(d).isConstant(1))
      continue;
    const int64_t to = indexMap(map, i)[d];
    if (to <= last)
      return {};
    shape[size_t(last = to)] = x.dim(d);
  }
  return shape;
}

/// A bias as a mask by positions and what is added to it: an operand of the sum, or of the
/// selection, in this shape.
struct MaskAndRest {
  llvm::Optional<PositionMask> mask;
  Value *rest = nullptr;
  IterationSpace shape;
};

/// Operand i of a map of two as a mask that hides what the map makes of the other: by a number that
/// is added, or as the condition of a selection.
llvm::Optional<PositionMask> maskOperand(const Operation &map, unsigned i, Dim queries, Dim keys) {
  const Operation *op = map.region().terminator()->operand(0)->def();
  const Value *own = elementArgument(map, i), *other = elementArgument(map, 1 - i);
  const Type type = map.operand(i)->type(), result = map.result()->type();
  if (!op || type.rank() > result.rank() || indexMap(map, i) != broadcastMap(type, result.shape()))
    return llvm::None;
  if (op->is(Op::Add) && ((op->operand(0) == own && op->operand(1) == other) ||
                          (op->operand(1) == own && op->operand(0) == other)))
    return positionMask(map.operand(i), queries, keys);
  if (!op->is(Op::Select) || op->operand(0) != own)
    return llvm::None;
  const bool hiddenIfTrue = op->operand(2) == other;
  const auto hidden = scalarValue(op->operand(hiddenIfTrue ? 1 : 2));
  if (!hidden || op->operand(hiddenIfTrue ? 2 : 1) != other)
    return llvm::None;
  auto mask = positionMask(map.operand(i), queries, keys, hiddenIfTrue ? 0 : 1);
  if (mask)
    mask->outside = *hidden;
  return mask;
}

MaskAndRest apart(Value *bias, Dim queries, Dim keys) {
  MaskAndRest all{positionMask(bias, queries, keys), nullptr, {}};
  const Operation *map = bias->def();
  if (hidesByPositions(all.mask) || !isPlainMap(map, 2))
    return all;
  for (unsigned i : {0u, 1u}) {
    MaskAndRest r{maskOperand(*map, i, queries, keys), map->operand(1 - i),
                  shapeInFull(*map, 1 - i)};
    if (hidesByPositions(r.mask) && !r.shape.empty() &&
        r.rest->type().element() == bias->type().element())
      return r;
  }
  return {};
}

// attention(q, k, v, b) = attention(q, k, v, first) {causal, window}, b 0 or hiding by positions
bool positionsPattern(Operation &op, Rewriter &rw) {
  const AttentionOperands at = op.is(Op::Attention) ? attentionOperands(op) : AttentionOperands();
  if (!at.bias || at.factors > 0 || at.first || op.has("causal") || op.has("window"))
    return false;
  const Type q = op.operand(0)->type(), k = op.operand(1)->type();
  const Dim queries = q.dim(q.rank() - 2), keys = k.dim(k.rank() - 2), before = keys - queries;
  const auto [mask, rest, shape] = apart(op.operand(at.bias), queries, keys);
  if (!hidesByPositions(mask))
    return false;
  const auto visible = before.lower() >= 0 || mask->seen.empty() ? visibleBy(*mask, before)
                                                                 : llvm::Optional<Visible>();
  // Positions that are not the queries' numbers: what is behind the last one holds nothing yet.
  const bool isOpen =
      !mask->seen.empty() &&
      (!before.isConstant() || (visible && visible->window && !before.isConstant(0)));
  if (!visible || (isOpen && (!visible->causal || *visible->causal != 0)) || !rw.fire(op))
    return false;
  Builder b = rw.before(op);
  llvm::SmallVector<Value *, 5> operands{op.operand(0), op.operand(1), op.operand(2)};
  if (rest)
    operands.push_back(b.reshape(rest, shape));
  NamedAttributes attributes = op.attributes();
  if (isOpen) {
    Value *first = extentNear(b, operands[1], before);
    if (!first) {
      Value *all = extentOf(b, operands[1], k.rank() - 2),
            *own = extentOf(b, operands[0], q.rank() - 2);
      first = all && own ? b.pointwise(Op::Sub, {all, own}) : nullptr;
    }
    operands.push_back(first);
  }
  if (llvm::is_contained(operands, nullptr))
    return false;
  const int64_t shift = isOpen || mask->seen.empty() ? 0 : before.constant();
  if (visible->causal)
    attributes.insert_or_assign("causal", Attribute(*visible->causal + shift));
  if (visible->window)
    attributes.insert_or_assign("window", Attribute(*visible->window));
  return rw.replace(op, b.value(Op::Attention, operands, std::move(attributes)));
}

const Pattern kPatterns[] = {{"causal-attention.mask", maskPattern},
                             {"causal-attention.positions", positionsPattern}};

} // namespace

bool runCausalAttention(Graph &graph, PassContext &context) {
  return applyPatterns(graph, context, kPatterns);
}

} // namespace tenon
