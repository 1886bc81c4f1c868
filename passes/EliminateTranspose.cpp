// eliminate-transpose: moves transposes down until they cancel or reach the outputs.
//
//   %t = transpose %x {perm = [0, 2, 1]}          %s = map %x, %c[0, 2, 1] { mul }
//   %m = map %t, %c { mul }                  →    return %s
//   %u = transpose %m {perm = [0, 2, 1]}
//   return %u
//
// Every step keeps the number of transposes and goes down, or lowers it, so the pass ends: behind
// products, a transpose joins one before them (eliminate-transpose.product). Composition and
// cancelling are canonicalize's (transpose-of-transpose). What is left is for layout assignment,
// which makes most transposes views.
#include "passes/EliminateTranspose.h"

#include "passes/Maps.h"
#include "passes/Rewrite.h"

namespace tenon {
namespace {

/// The transpose behind a value that nothing else reads; null otherwise.
Operation *soleTranspose(Value *v) {
  Operation *def = v->def();
  return def && def->is(Op::Transpose) && v->hasOneUse() && v->type().layout().isRowMajor() &&
                 def->operand(0)->type().layout().isRowMajor()
             ? def
             : nullptr;
}

llvm::SmallVector<Dim, 6> unpermute(llvm::ArrayRef<Dim> shape, const Ints &perm) {
  llvm::SmallVector<Dim, 6> out(shape.size());
  for (size_t i = 0; i < perm.size(); ++i)
    out[perm[i]] = shape[i];
  return out;
}

template <class List> List unpermuted(const List &list, const Ints &perm) {
  List out(list.size());
  for (size_t i = 0; i < perm.size(); ++i)
    out[perm[i]] = list[i];
  return out;
}

/// The function of `map`, of these operands over another space, whose dimension perm[d] is d.
Value *mapOver(Builder &b, Operation &map, llvm::ArrayRef<Value *> operands, const IntLists &maps,
               llvm::ArrayRef<Dim> space, const Ints &perm) {
  Operation *made = b.map(operands, maps, space, [&](Builder &inner, llvm::ArrayRef<Value *> args) {
    std::map<const Value *, Value *> values;
    for (unsigned i = 0; i < args.size(); ++i)
      values[map.region().argument(i)] = args[i];
    inlineBody(map.region(), inner, values, perm);
    Value *y = map.region().terminator()->operand(0);
    return llvm::SmallVector<Value *, 2>{values.count(y) ? values[y] : y};
  });
  return made ? made->result() : nullptr;
}

// map(transpose_p(x), …) = transpose_p(map(x, …)), where every operand over the whole space is
// transposed alike; others read through another index map
bool mapPattern(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Map) || op.numResults() != 1 || !op.result()->type().layout().isRowMajor())
    return false;
  Type result = op.result()->type();
  Ints perm;
  for (unsigned i = 0; i < op.numOperands(); ++i) {
    Value *v = op.operand(i);
    if (v->type().shape() != result.shape() || !isIdentityMap(indexMap(op, i), result.rank())) {
      if (v->type().elements() == result.elements())
        return false; // just as large, read in some other order
      continue;
    }
    Operation *t = soleTranspose(v);
    if (!t) {
      if (constantValue(v))
        continue; // read in any order
      return false;
    }
    if (!perm.empty() && perm != t->intsAttr("perm"))
      return false;
    perm = t->intsAttr("perm");
  }
  if (perm.empty() || !rw.fire(op))
    return false;
  auto operands = op.operands();
  IntLists maps = op.intListsAttr("maps");
  Builder b = rw.before(op);
  for (unsigned i = 0; i < operands.size(); ++i) {
    Operation *t = soleTranspose(operands[i]);
    if (t && t->intsAttr("perm") == perm && isIdentityMap(maps[i], result.rank())) {
      operands[i] = t->operand(0);
      mergeLocation(b.location, t->loc());
      continue; // the map stays the identity
    }
    for (int64_t &d : maps[i])
      d = d < 0 ? -1 : perm[d];
  }
  Value *y = mapOver(b, op, operands, maps, unpermute(result.shape(), perm), perm);
  return y && rw.replace(op, b.transpose(y, perm));
}

/// The transpose or reshape that, through maps that nothing else reads, all large operands of `v`
/// come of; `v` itself may be its result. Null where there is none, or several.
Operation *soleMovement(Value *v) {
  Operation *def = v->def();
  if (!def || !v->type().layout().isRowMajor())
    return nullptr;
  if (def->isAny(Op::Transpose, Op::Reshape))
    return def;
  if (!isPlainMap(def, def->numOperands()) || !v->hasOneUse())
    return nullptr;
  Operation *found = nullptr;
  for (unsigned i = 0; i < def->numOperands(); ++i) {
    Value *operand = def->operand(i);
    if (constantValue(operand) ||
        (!readsInPlace(*def, i) && operand->type().elements() != v->type().elements()))
      continue;
    Operation *movement = readsInPlace(*def, i) ? soleMovement(operand) : nullptr;
    if (!movement || (found && found != movement))
      return nullptr;
    found = movement;
  }
  return found;
}

// map(f(t), g(t)) becomes one map of t, a transpose or a reshape: the other patterns move those on
// that are read once
bool joinPattern(Operation &op, Rewriter &rw) {
  if (!isPlainMap(&op, op.numOperands()))
    return false;
  for (unsigned i = 0; i < op.numOperands(); ++i) {
    Operation *inner = op.operand(i)->def();
    if (!inner || !inner->is(Op::Map) || !readsInPlace(op, i))
      continue;
    Operation *movement = soleMovement(op.operand(i));
    if (!movement || movement->result()->hasOneUse())
      continue;
    for (unsigned k = 0; k < op.numOperands(); ++k) {
      if (k == i || !readsInPlace(op, k) || soleMovement(op.operand(k)) != movement)
        continue;
      if (!rw.fire(op))
        return false;
      Builder b = rw.before(op);
      mergeLocation(b.location, inner->loc());
      Operation *map = mergedMap(b, *inner, op);
      if (!map)
        return false;
      shareOperands(*map);
      return rw.replace(op, map->result());
    }
  }
  return false;
}

// reduce_A(transpose_p(x)) = transpose_q(reduce_p(A)(x)), q being what p does to the kept
// dimensions
bool reducePattern(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Reduce) || op.numOperands() != 1 || op.numResults() != 1 ||
      !op.result()->type().layout().isRowMajor())
    return false;
  Operation *t = soleTranspose(op.operand(0));
  if (!t || !isIdentityMap(indexMap(op, 0), t->result()->type().rank()) || op.has("space"))
    return false;
  for (Operation &s : op.region())
    if (s.is(Op::Index))
      return false; // ties between equal elements may be broken by position
  if (!rw.fire(op))
    return false;
  const Ints &perm = t->intsAttr("perm");
  Ints axes, kept; // of x
  for (int64_t a : op.intsAttr("axes"))
    axes.push_back(perm[a]);
  std::sort(axes.begin(), axes.end());
  for (size_t i = 0; i < perm.size(); ++i)
    if (!llvm::is_contained(op.intsAttr("axes"), int64_t(i)))
      kept.push_back(perm[i]);
  // Dimension kept[i] of x becomes result dimension i; the reduction gives them in x's order.
  Ints q;
  for (int64_t d : kept)
    q.push_back(int64_t(llvm::count_if(kept, [&](int64_t e) { return e < d; })));
  Builder b = rw.before(op);
  mergeLocation(b.location, t->loc());
  NamedAttributes attributes = op.attributes();
  attributes.insert_or_assign("axes", Attribute(axes));
  Operation *reduce =
      b.create(Op::Reduce, {t->operand(0)}, attributes, 1, [&](unsigned, Region &region) {
        std::map<const Value *, Value *> values;
        for (Value *a : op.region().arguments())
          values[a] = region.addArgument(a->type(), a->hint());
        for (Operation &s : op.region())
          region.push_back(s.clone(values));
      });
  if (!reduce)
    return false;
  return rw.replace(op, b.transpose(reduce->result(), q));
}

/// Shared by the operations below: same kind on x with changed attributes, transposed afterwards.
bool sinkBelow(Operation &op, Rewriter &rw, const Ints &perm, llvm::ArrayRef<Value *> operands,
               const NamedAttributes &changed) {
  NamedAttributes attributes = op.attributes();
  for (auto &[name, value] : changed)
    attributes.insert_or_assign(name, value);
  Builder b = rw.before(op);
  for (Value *v : op.operands())
    if (v->def() && v->def()->is(Op::Transpose))
      mergeLocation(b.location, v->def()->loc());
  Value *y = b.value(op.kind(), operands, std::move(attributes));
  if (!y)
    return false;
  return rw.replace(op, b.transpose(y, perm));
}

/// The transpose that a row-major operation reads, where the pattern may do away with it.
Operation *transposeBefore(Operation &op, Rewriter &rw) {
  Operation *t = op.result()->type().layout().isRowMajor() ? soleTranspose(op.operand(0)) : nullptr;
  return t && rw.fire(op) ? t : nullptr;
}

// softmax_a(transpose_p(x)) = transpose_p(softmax_p(a)(x))
bool softmaxPattern(Operation &op, Rewriter &rw) {
  Operation *t = op.isAny(Op::Softmax, Op::QuantizedSoftmax) ? transposeBefore(op, rw) : nullptr;
  if (!t)
    return false;
  const Ints perm = t->intsAttr("perm");
  return sinkBelow(op, rw, perm, {t->operand(0)}, {{"axis", perm[op.intAttr("axis")]}});
}

// normalize_axes(transpose_p(x)) = transpose_p(normalize_p(axes)(x))
bool normalizePattern(Operation &op, Rewriter &rw) {
  Operation *t = op.is(Op::Normalize) ? transposeBefore(op, rw) : nullptr;
  if (!t)
    return false;
  const Ints perm = t->intsAttr("perm");
  Ints axes;
  for (int64_t a : op.intsAttr("axes"))
    axes.push_back(perm[size_t(a)]);
  llvm::sort(axes);
  return sinkBelow(op, rw, perm, {t->operand(0)}, {{"axes", axes}});
}

// slice(transpose_p(x)) = transpose_p(slice(x)), pad likewise
bool slicePadPattern(Operation &op, Rewriter &rw) {
  Operation *t = op.isAny(Op::Slice, Op::Pad) ? transposeBefore(op, rw) : nullptr;
  if (!t)
    return false;
  const Ints perm = t->intsAttr("perm");
  NamedAttributes changed;
  for (const char *name : {"starts", "sizes", "low", "high"})
    if (op.has(name))
      changed.emplace(name, unpermuted(op.dimsAttr(name), perm));
  if (op.has("steps"))
    changed.emplace("steps", unpermuted(op.intsAttr("steps"), perm));
  auto operands = op.operands();
  operands[0] = t->operand(0);
  return sinkBelow(op, rw, perm, operands, changed);
}

// concat_a(transpose_p(x), transpose_p(y)) = transpose_p(concat_p(a)(x, y))
bool concatPattern(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Concat) || !op.result()->type().layout().isRowMajor())
    return false;
  Ints perm;
  llvm::SmallVector<Value *, 4> operands;
  for (Value *v : op.operands()) {
    Operation *t = soleTranspose(v);
    if (!t || (!perm.empty() && perm != t->intsAttr("perm")))
      return false;
    perm = t->intsAttr("perm");
    operands.push_back(t->operand(0));
  }
  if (!rw.fire(op))
    return false;
  return sinkBelow(op, rw, perm, operands, {{"axis", perm[op.intAttr("axis")]}});
}

// matmul(transpose(a), b) with the last two dimensions swapped = matmul(a, b) {trans_a}
bool matmulPattern(Operation &op, Rewriter &rw) {
  if (!op.is(Op::MatMul))
    return false;
  for (unsigned i = 0; i < 2; ++i) {
    Operation *t = op.operand(i)->def();
    if (!t || !t->is(Op::Transpose) || !t->operand(0)->type().layout().isRowMajor())
      continue;
    Ints swapped = identityMap(op.operand(i)->type().rank());
    std::swap(swapped[swapped.size() - 1], swapped[swapped.size() - 2]);
    const char *flag = i ? "trans_b" : "trans_a";
    if (t->intsAttr("perm") != swapped || !rw.fire(op))
      continue;
    op.set(flag, !op.boolAttr(flag));
    mergeLocation(op.loc(), t->loc());
    op.setOperand(i, t->operand(0));
    return true;
  }
  return false;
}

/// Dimensions that a reshape makes of neighbouring ones with as many elements.
struct Regrouping {
  unsigned from, fromCount, to, toCount;
};

/// The smallest groups of a reshape between these shapes; None where extents that are not known are
/// more than passed on. Extents of 1 join a group beside them.
llvm::Optional<llvm::SmallVector<Regrouping, 6>> regroupings(llvm::ArrayRef<Dim> from,
                                                             llvm::ArrayRef<Dim> to) {
  llvm::SmallVector<Regrouping, 6> groups;
  auto take = [](llvm::ArrayRef<Dim> shape, unsigned at, int64_t &product) {
    const bool known = at < shape.size() && shape[at].isConstant() && shape[at].constant() > 0;
    product *= known ? shape[at].constant() : 1;
    return known;
  };
  unsigned i = 0, k = 0;
  while (i < from.size() && k < to.size()) {
    Regrouping g{i, 1, k, 1};
    if (from[i] != to[k] || !from[i].isConstant()) {
      int64_t a = 1, b = 1;
      if (from[i] != to[k] && !(take(from, i, a) && take(to, k, b)))
        return llvm::None;
      while (a != b)
        if (a < b ? !take(from, i + g.fromCount++, a) : !take(to, k + g.toCount++, b))
          return llvm::None;
    }
    i += g.fromCount;
    k += g.toCount;
    groups.push_back(g);
  }
  for (; i < from.size() && from[i].isConstant(1) && !groups.empty(); ++i)
    ++groups.back().fromCount;
  for (; k < to.size() && to[k].isConstant(1) && !groups.empty(); ++k)
    ++groups.back().toCount;
  if (i < from.size() || k < to.size())
    return llvm::None;
  return groups;
}

/// Whether a reshape merges no dimensions; extents of 1 do not count.
bool onlySplits(llvm::ArrayRef<Dim> from, llvm::ArrayRef<Regrouping> groups) {
  return llvm::all_of(groups, [&](const Regrouping &g) {
    return llvm::count_if(from.slice(g.from, g.fromCount),
                          [](Dim d) { return !d.isConstant(1); }) <= 1;
  });
}

// reshape(transpose_p(reshape(x))) = transpose_q(reshape(x)), where the last takes apart what the
// first merged
bool splitPattern(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Reshape) || !op.result()->type().layout().isRowMajor())
    return false;
  Operation *t = soleTranspose(op.operand(0));
  Operation *merge = t ? t->operand(0)->def() : nullptr;
  if (!merge || !merge->is(Op::Reshape))
    return false;
  const auto groups = regroupings(t->result()->type().shape(), op.result()->type().shape());
  if (!groups || llvm::any_of(*groups, [](const Regrouping &g) { return g.fromCount != 1; }))
    return false;
  const Ints &perm = t->intsAttr("perm");
  llvm::SmallVector<unsigned, 6> places(perm.size()); // of what dimension i of x becomes
  for (size_t i = 0; i < perm.size(); ++i)
    places[size_t(perm[i])] = unsigned(i);
  llvm::SmallVector<Dim, 6> shape;
  Ints q(op.result()->type().rank());
  for (const unsigned place : places) {
    const Regrouping &g = (*groups)[place];
    for (unsigned d = g.to; d < g.to + g.toCount; ++d) {
      q[d] = int64_t(shape.size());
      shape.push_back(op.result()->type().dim(d));
    }
  }
  const llvm::ArrayRef<Dim> whole = merge->operand(0)->type().shape();
  const auto both = regroupings(whole, shape);
  if (!both || !onlySplits(whole, *both) || !rw.fire(op))
    return false;
  Builder b = rw.before(op);
  mergeLocation(b.location, t->loc());
  Value *split = b.reshape(t->operand(0), shape);
  return split && rw.replace(op, b.transpose(split, q));
}

bool keepsLast(const Ints &perm) { return perm.back() == int64_t(perm.size()) - 1; }

/// A product of rows and one matrix, and maps behind it that treat all rows alike; nothing else
/// reads what is between them.
struct RowWise {
  Operation *product = nullptr;
  llvm::SmallVector<std::pair<Operation *, unsigned>, 4> maps; // and which operand the rows are

  /// The same of other rows.
  Value *of(Builder &b, Value *rows) const {
    auto operands = product->operands();
    operands[0] = rows;
    b.location = product->loc();
    Value *y = b.value(Op::MatMul, operands, product->attributes());
    for (const auto &[map, place] : maps)
      y = y ? mapped(b, *map, place, y) : nullptr;
    return y;
  }

private:
  static Value *mapped(Builder &b, Operation &map, unsigned place, Value *rows) {
    auto operands = map.operands();
    IntLists maps = map.intListsAttr("maps");
    const Type t = rows->type();
    operands[place] = rows;
    for (unsigned i = 0; i < operands.size(); ++i)
      if (i == place)
        maps[i] = identityMap(t.rank());
      else
        for (int64_t &d : maps[i])
          d = d < 0 ? -1 : int64_t(t.rank()) - 1;
    b.location = map.loc();
    return mapOver(b, map, operands, maps, t.shape(), identityMap(t.rank()));
  }
};

/// Whether operand i of a map depends on the last dimension alone.
bool readsColumns(const Operation &map, unsigned i) {
  return llvm::all_of(indexMap(map, i), [&](int64_t d) {
    return d < 0 || d == int64_t(map.result()->type().rank()) - 1;
  });
}

llvm::Optional<RowWise> rowWise(Value *v) {
  RowWise found;
  while (Operation *def = v->hasOneUse() ? v->def() : nullptr) {
    if (def->is(Op::MatMul)) {
      if (def->boolAttr("trans_a") || def->operand(1)->type().rank() != 2)
        return llvm::None;
      found.product = def;
      std::reverse(found.maps.begin(), found.maps.end());
      return found;
    }
    if (!def->is(Op::Map) || def->numResults() != 1 || !v->type().layout().isRowMajor() ||
        llvm::any_of(def->region(), [](const Operation &s) { return s.is(Op::Index); }))
      return llvm::None;
    int rows = -1;
    for (unsigned i = 0; i < def->numOperands(); ++i) {
      if (readsInPlace(*def, i) && rows < 0)
        rows = int(i);
      else if (!readsColumns(*def, i))
        return llvm::None;
    }
    if (rows < 0)
      return llvm::None;
    found.maps.push_back({def, unsigned(rows)});
    v = def->operand(unsigned(rows));
  }
  return llvm::None;
}

// matmul(transpose_p(x), w) = transpose_p(matmul(x, w)), where p only moves rows
bool rowsPattern(Operation &op, Rewriter &rw) {
  if (!op.is(Op::MatMul) || op.boolAttr("trans_a") || op.operand(1)->type().rank() != 2 ||
      !op.result()->type().layout().isRowMajor())
    return false;
  Operation *t = soleTranspose(op.operand(0));
  if (!t || !keepsLast(t->intsAttr("perm")) || !rw.fire(op))
    return false;
  auto operands = op.operands();
  operands[0] = t->operand(0);
  return sinkBelow(op, rw, t->intsAttr("perm"), operands, {});
}

// reshape(f(matmul(reshape(x), w))) = f(matmul(reshape(x), w)), where the first merges rows of x,
// the last takes them apart again, and f treats all rows alike
bool mergedRowsPattern(Operation &op, Rewriter &rw) {
  const auto rows = op.is(Op::Reshape) ? rowWise(op.operand(0)) : llvm::None;
  Operation *merge = rows ? rows->product->operand(0)->def() : nullptr;
  if (!merge || !merge->is(Op::Reshape) || merge->result()->type().rank() != 2)
    return false;
  const Type x = merge->operand(0)->type(), y = op.result()->type();
  const auto merged = regroupings(x.shape(), merge->result()->type().shape());
  if (!merged || merged->size() != 2 || y.rank() < 2 ||
      x.shape().take_front((*merged)[0].fromCount) != y.shape().drop_back(1) || !rw.fire(op))
    return false;
  llvm::SmallVector<Dim, 6> shape(y.shape().begin(), y.shape().end());
  shape.back() = merge->result()->type().dim(1);
  Builder b = rw.before(op);
  Value *split = b.reshape(merge->operand(0), shape);
  return split && rw.replace(op, rows->of(b, split));
}

// transpose_q(f(matmul(reshape(transpose_p(x)), w))) = f(matmul(reshape(transpose_r(x)), w)), where
// q only moves rows, the reshape only merges columns, and f treats all rows alike
bool productPattern(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Transpose) || !keepsLast(op.intsAttr("perm")))
    return false;
  const auto rows = rowWise(op.operand(0));
  Operation *merge = rows ? rows->product->operand(0)->def() : nullptr;
  if (!merge || !merge->is(Op::Reshape) || !merge->result()->hasOneUse())
    return false;
  Operation *t = soleTranspose(merge->operand(0));
  const Ints &q = op.intsAttr("perm");
  const size_t count = q.size() - 1;
  if (!t || t->intsAttr("perm").size() < count ||
      t->result()->type().shape().take_front(count) !=
          merge->result()->type().shape().drop_back(1) ||
      !rw.fire(op))
    return false;
  Ints r = t->intsAttr("perm");
  for (size_t i = 0; i < count; ++i)
    r[i] = t->intsAttr("perm")[size_t(q[i])];
  llvm::SmallVector<Dim, 6> shape(op.result()->type().shape().begin(),
                                  op.result()->type().shape().end());
  shape.back() = merge->result()->type().shape().back();
  Builder b = rw.before(op);
  mergeLocation(b.location, t->loc());
  Value *moved = b.transpose(t->operand(0), r);
  Value *merged = moved ? b.reshape(moved, shape) : nullptr;
  return merged && rw.replace(op, rows->of(b, merged));
}

/// Whether nothing reads `v` but slices that take no element twice, as what splits q, k and v does.
bool isShared(const Value *v) {
  int64_t taken = 0;
  for (Use *u : v->uses()) {
    const Type part = u->owner()->is(Op::Slice) ? u->owner()->result()->type() : Type();
    if (!part || !part.hasStaticShape())
      return false;
    taken += part.upperElements();
  }
  return v->type().hasStaticShape() && taken <= v->type().upperElements();
}

// slice(reshape(transpose_p(x))) = reshape(transpose_p(slice(x))), where the reshape leaves alone
// what the slice cuts, and slices share out what they read: none of it has to be moved whole
bool sharedPattern(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Slice) || !op.result()->type().layout().isRowMajor() || !isShared(op.operand(0)))
    return false;
  Operation *reshape = op.operand(0)->def();
  Operation *t = reshape && reshape->is(Op::Reshape) ? reshape->operand(0)->def() : nullptr;
  if (!t || !t->is(Op::Transpose) || !reshape->operand(0)->hasOneUse() ||
      !t->operand(0)->type().layout().isRowMajor())
    return false;
  const Type from = t->result()->type(), to = reshape->result()->type();
  const auto groups = regroupings(from.shape(), to.shape());
  if (!groups)
    return false;
  const Ints &perm = t->intsAttr("perm");
  const Type x = t->operand(0)->type();
  Dims starts(x.rank(), x.context().dim(0)), sizes(x.shape().begin(), x.shape().end());
  Ints steps(x.rank(), 1);
  for (const Regrouping &g : *groups)
    for (unsigned d = g.to; d < g.to + g.toCount; ++d) {
      if (op.result()->type().dim(d) == to.dim(d) && op.intsAttr("steps")[d] == 1)
        continue;
      if (g.fromCount != 1 || g.toCount != 1)
        return false;
      const auto place = size_t(perm[g.from]);
      starts[place] = op.dimsAttr("starts")[d];
      sizes[place] = op.dimsAttr("sizes")[d];
      steps[place] = op.intsAttr("steps")[d];
    }
  if (!rw.fire(op))
    return false;
  Builder b = rw.before(op);
  mergeLocation(b.location, t->loc());
  Value *part =
      b.value(Op::Slice, {t->operand(0)}, {{"starts", starts}, {"sizes", sizes}, {"steps", steps}});
  Value *moved = part ? b.transpose(part, perm) : nullptr;
  Value *y = moved ? b.reshape(moved, op.result()->type().shape()) : nullptr;
  return y && rw.replace(op, y);
}

// transpose_q(reshape(transpose_p(x))) = reshape(transpose_r(reshape(transpose_p(x)))), where the
// first reshape merges dimensions: it splits alone, and what it merged is merged behind the
// transpose, so that elements move once
bool mergePattern(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Transpose) || !op.result()->type().layout().isRowMajor())
    return false;
  Operation *merge = op.operand(0)->def();
  Operation *t = merge && merge->is(Op::Reshape) ? merge->operand(0)->def() : nullptr;
  while (t && t->is(Op::Reshape)) // left to canonicalisation
    t = t->operand(0)->def();
  if (!t || !t->is(Op::Transpose) || !t->result()->type().layout().isRowMajor())
    return false;
  const Type from = t->result()->type(), to = merge->result()->type();
  const auto groups = regroupings(from.shape(), to.shape());
  if (!groups || onlySplits(from.shape(), *groups))
    return false;
  // Of every group what is merged stays apart, and what is split already is.
  llvm::SmallVector<Dim, 6> split;
  std::vector<Ints> places(to.rank()); // in `split`, by dimension of `to`
  for (const Regrouping &g : *groups) {
    const bool merges = g.toCount == 1;
    if (!merges && g.fromCount != 1)
      return false;
    for (unsigned i = 0; i < (merges ? g.fromCount : g.toCount); ++i) {
      places[merges ? g.to : g.to + i].push_back(int64_t(split.size()));
      split.push_back(merges ? from.dim(g.from + i) : to.dim(g.to + i));
    }
  }
  if (!rw.fire(op))
    return false;
  Ints r;
  for (int64_t d : op.intsAttr("perm"))
    r.insert(r.end(), places[size_t(d)].begin(), places[size_t(d)].end());
  Builder b = rw.before(op);
  mergeLocation(b.location, merge->loc());
  Value *apart = b.reshape(t->result(), split);
  Value *moved = apart ? b.transpose(apart, r) : nullptr;
  Value *y = moved ? b.reshape(moved, op.result()->type().shape()) : nullptr;
  return y && rw.replace(op, y);
}

/// Whether a permutation swaps the last two dimensions and nothing else.
bool swapsLastTwo(const Ints &perm) {
  Ints swapped = identityMap(unsigned(perm.size()));
  if (perm.size() < 2)
    return false;
  std::swap(swapped[swapped.size() - 1], swapped[swapped.size() - 2]);
  return perm == swapped;
}

/// Products with constant matrices, and maps between and behind them, that become what they are
/// transposed when the matrices stand on the left: T(a w) = T(w) T(a). It ends where `a` is
/// transposed already.
class Turned {
public:
  /// Whether all that `v` is made of turns, and is read by nothing else than what turns, too.
  bool take(Value *v) {
    return turns(v) && ends_ > 0 && llvm::all_of(values_, [&](Value *inner) {
             return inner == v ? v->hasOneUse() : llvm::all_of(inner->uses(), [&](const Use *u) {
               return llvm::any_of(values_, [&](Value *w) { return w->def() == u->owner(); });
             });
           });
  }

  /// T(v).
  Value *of(Builder &b, Value *v) {
    if (const auto known = made_.find(v); known != made_.end())
      return known->second;
    Operation &op = *v->def();
    Value *y = op.is(Op::MatMul) ? product(b, op) : op.is(Op::Map) ? map(b, op) : op.operand(0);
    return made_[v] = y;
  }

private:
  static bool isTurned(const Operation &op) {
    return op.is(Op::Transpose) && swapsLastTwo(op.intsAttr("perm"));
  }
  static bool isLarge(const Operation &map, unsigned i) {
    return map.operand(i)->type().elements() == map.result()->type().elements();
  }

  bool turns(Value *v) {
    Operation *op = v->def();
    if (!op || !v->type().layout().isRowMajor())
      return false;
    if (llvm::is_contained(values_, v))
      return true;
    if (isTurned(*op)) {
      ++ends_; // and others may read it as it is
      return op->operand(0)->type().layout().isRowMajor();
    }
    values_.push_back(v);
    if (op->is(Op::MatMul)) {
      if (op->numOperands() != 2 || op->has("block") || !constantValue(op->operand(1)) ||
          op->operand(1)->type().rank() != 2 || !isWide(v->type().element()))
        return false;
      if (op->boolAttr("trans_a")) {
        ++ends_;
        return true;
      }
      return turns(op->operand(0));
    }
    if (!isPlainMap(op, op->numOperands()))
      return false;
    unsigned turned = 0;
    for (unsigned i = 0; i < op->numOperands(); ++i) {
      if (constantValue(op->operand(i)) || !isLarge(*op, i))
        continue;
      if (!readsInPlace(*op, i) || !turns(op->operand(i)))
        return false;
      ++turned;
    }
    return turned > 0;
  }
  static bool isWide(Element e) { return isFloat(e) && bitWidth(e) >= 16; }

  Value *product(Builder &b, Operation &op) {
    const bool ends = op.boolAttr("trans_a");
    Value *right = ends ? op.operand(0) : of(b, op.operand(0));
    b.location = op.loc();
    NamedAttributes attributes = op.attributes();
    attributes.insert_or_assign("trans_a", Attribute(!op.boolAttr("trans_b")));
    attributes.insert_or_assign("trans_b", Attribute(false));
    return right ? b.value(Op::MatMul, {op.operand(1), right}, std::move(attributes)) : nullptr;
  }

  Value *map(Builder &b, Operation &op) {
    const unsigned rank = op.result()->type().rank();
    Ints perm = identityMap(rank);
    std::swap(perm[rank - 1], perm[rank - 2]);
    auto operands = op.operands();
    IntLists maps = op.intListsAttr("maps");
    for (unsigned i = 0; i < operands.size(); ++i)
      if (llvm::is_contained(values_, operands[i]) ||
          (operands[i]->def() && isTurned(*operands[i]->def()) && isLarge(op, i))) {
        operands[i] = of(b, operands[i]); // the map stays the identity
        if (!operands[i])
          return nullptr;
      } else {
        for (int64_t &d : maps[i])
          d = d < 0 ? -1 : perm[size_t(d)];
      }
    b.location = op.loc();
    return mapOver(b, op, operands, maps, unpermute(op.result()->type().shape(), perm), perm);
  }

  llvm::SmallVector<Value *, 8> values_; // that turn
  unsigned ends_ = 0;
  std::map<Value *, Value *> made_;
};

// transpose(f(matmul(transpose(x), w))) = f(matmul(transpose(w), x)), both of the last two
// dimensions, of several such products likewise: tokens are mixed where they lie
bool leftPattern(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Transpose) || !rw.context().target.leftWeights ||
      !swapsLastTwo(op.intsAttr("perm")) || !op.result()->type().layout().isRowMajor())
    return false;
  Turned turned;
  if (!turned.take(op.operand(0)) || !rw.fire(op))
    return false;
  Builder b = rw.before(op);
  Value *y = turned.of(b, op.operand(0));
  return y && rw.replace(op, y);
}

const Pattern kPatterns[] = {
    {"eliminate-transpose.map", mapPattern},
    {"eliminate-transpose.join", joinPattern},
    {"eliminate-transpose.reduce", reducePattern},
    {"eliminate-transpose.softmax", softmaxPattern},
    {"eliminate-transpose.normalize", normalizePattern},
    {"eliminate-transpose.slice-pad", slicePadPattern},
    {"eliminate-transpose.concat", concatPattern},
    {"eliminate-transpose.matmul", matmulPattern},
    {"eliminate-transpose.split", splitPattern},
    {"eliminate-transpose.rows", rowsPattern},
    {"eliminate-transpose.merged-rows", mergedRowsPattern},
    {"eliminate-transpose.product", productPattern},
    {"eliminate-transpose.shared", sharedPattern},
    {"eliminate-transpose.merge", mergePattern},
    {"eliminate-transpose.left", leftPattern},
};

} // namespace

bool runEliminateTranspose(Graph &graph, PassContext &context) {
  return applyPatterns(graph, context, kPatterns);
}

} // namespace tenon
