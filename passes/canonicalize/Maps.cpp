// Patterns of canonicalize for map and reduce.
#include "passes/canonicalize/Patterns.h"

#include "ir/Attention.h"
#include "passes/Maps.h"
#include "passes/SimplifyBody.h"

namespace tenon::canonicalize {

// map(x) { yield x } = x, where x is read at the point of iteration
bool identityMapPattern(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Map))
    return false;
  Operation *end = op.region().terminator();
  llvm::SmallVector<Value *, 2> values = op.results();
  bool any = false;
  for (unsigned r = 0; r < op.numResults(); ++r) {
    Value *yielded = end->operand(r);
    if (yielded->argumentOf() != &op.region() || !op.result(r)->hasUses())
      continue;
    Value *x = op.operand(yielded->index());
    if (x->type() == op.result(r)->type() &&
        isIdentityMap(indexMap(op, yielded->index()), x->type().rank()))
      values[r] = x, any = true;
  }
  if (!any || !rw.fire(op))
    return false;
  for (unsigned r = 0; r < op.numResults(); ++r)
    if (values[r] != op.result(r))
      op.result(r)->replaceAllUsesWith(values[r]);
  return true;
}

/// What `map` widens from 16 bits, element by element; null: it does something else.
static Value *widenedBy(const Operation *map) {
  if (!isPlainMap(map, 1) || !isIdentityMap(indexMap(*map, 0), map->operand(0)->type().rank()))
    return nullptr;
  const Operation *cast = soleScalar(*map);
  const Type x = map->operand(0)->type();
  const bool widens = cast && cast->is(Op::Cast) &&
                      map->result()->type().element() == Element::F32 &&
                      (x.element() == Element::F16 || x.element() == Element::BF16) &&
                      x.shape() == map->result()->type().shape();
  return widens ? map->operand(0) : nullptr;
}

// attention(q, k, v, map(x) { cast x }) = attention(q, k, v, x), x of 16 bits
bool widenedBias(Operation &op, Rewriter &rw) {
  const unsigned bias = op.is(Op::Attention) ? attentionOperands(op).bias : 0;
  Operation *map = bias ? op.operand(bias)->def() : nullptr;
  Value *x = map ? widenedBy(map) : nullptr;
  if (!x || !rw.fire(op))
    return false;
  mergeLocation(op.loc(), map->loc());
  op.setOperand(bias, x);
  return true;
}

// normalize(f32(x)) = normalize(x), which computes in f32 and gives f32, also behind a reshape
bool widenedNormalize(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Normalize))
    return false;
  Operation *def = op.operand(0)->def();
  const Operation *reshape = def && def->is(Op::Reshape) ? def : nullptr;
  if (reshape && (!rowMajor(reshape->operand(0)) || !rowMajor(reshape->result())))
    return false;
  Operation *map = reshape ? reshape->operand(0)->def() : def;
  Value *x = map ? widenedBy(map) : nullptr;
  if (!x || !rw.fire(op))
    return false;
  mergeLocation(op.loc(), map->loc());
  op.setOperand(0, reshape ? rw.before(op).reshape(x, reshape->result()->type().shape()) : x);
  return true;
}

namespace {

/// Heads of keys or values, of which each stands `shared` times in a row.
struct RepeatedHeads {
  Value *from; // has an element for each of [batch, groups, rows, width], in this order
  Dim groups, shared;
  const Operation *map;
};

/// Whether a copy [batch, groups, shared, rows, width] repeats each element along dimension 2
/// alone.
bool repeatsAlongShared(const Operation &map) {
  const Type from = map.operand(0)->type(), all = map.result()->type();
  const IndexMap reads = indexMap(map, 0);
  int64_t last = -1;
  for (unsigned i = 0; i < from.rank(); ++i) {
    if (from.dim(i).isConstant(1))
      continue;
    if (reads[i] <= last || reads[i] == 2)
      return false;
    // Left out is nothing but extents of 1.
    for (++last; last < reads[i]; ++last)
      if (last != 2 && !all.dim(unsigned(last)).isConstant(1))
        return false;
  }
  for (++last; last < int64_t(all.rank()); ++last)
    if (last != 2 && !all.dim(unsigned(last)).isConstant(1))
      return false;
  return true;
}

/// Of `v` [batch, heads, rows, width]; None where its heads are not repeated.
llvm::Optional<RepeatedHeads> repeatedHeadsOf(Value *v) {
  const Operation *reshape = v->def();
  if (!reshape || !reshape->is(Op::Reshape) || v->type().rank() != 4)
    return llvm::None;
  const Operation *map = reshape->operand(0)->def();
  if (!isPlainMap(map, 1) || !isCopyBody(map->region()))
    return llvm::None;
  const Type t = v->type(), all = map->result()->type();
  if (all.rank() != 5 || all.dim(0) != t.dim(0) || all.dim(3) != t.dim(2) ||
      all.dim(4) != t.dim(3) || all.dim(1) * all.dim(2) != t.dim(1) ||
      map->operand(0)->type().element() != t.element() || !repeatsAlongShared(*map))
    return llvm::None;
  return RepeatedHeads{map->operand(0), all.dim(1), all.dim(2), map};
}

} // namespace

// attention(q [b, g·s, …], reshape(repeat k), reshape(repeat v)) =
//     reshape(attention(reshape q [b, g, s, …], reshape k [b, g, 1, …], reshape v [b, g, 1, …]))
bool repeatedHeads(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Attention) || op.operand(0)->type().rank() != 4 ||
      attentionOperands(op).factors > 0)
    return false;
  const auto k = repeatedHeadsOf(op.operand(1)), v = repeatedHeadsOf(op.operand(2));
  const Type q = op.operand(0)->type();
  if (!k || !v || k->groups != v->groups || k->shared != v->shared ||
      q.dim(1) != k->groups * k->shared || !rw.fire(op))
    return false;
  Builder b = rw.before(op);
  const Dim one = b.context().dim(1);
  // With heads apart, or all of them the same.
  const auto apart = [&](Value *x) {
    const Type t = x->type();
    llvm::SmallVector<Dim, 6> shape(t.shape().begin(), t.shape().end());
    const unsigned heads = t.rank() - 3;
    const bool same = shape[heads].isConstant(1) && !q.dim(1).isConstant(1);
    shape[heads] = same ? one : k->groups;
    shape.insert(shape.begin() + heads + 1, same ? one : k->shared);
    return b.reshape(x, shape);
  };
  const auto shared = [&](const RepeatedHeads &of, const Value *repeated) {
    const Type t = repeated->type();
    return b.reshape(of.from, {t.dim(0), of.groups, one, t.dim(2), t.dim(3)});
  };
  llvm::SmallVector<Value *, 6> operands{apart(op.operand(0)), shared(*k, op.operand(1)),
                                         shared(*v, op.operand(2))};
  const unsigned bias = attentionOperands(op).bias;
  for (unsigned i = 3; i < op.numOperands(); ++i)
    operands.push_back(i == bias && op.operand(i)->type().rank() > 2 ? apart(op.operand(i))
                                                                     : op.operand(i));
  if (llvm::is_contained(operands, nullptr))
    return false;
  for (const Operation *map : {k->map, v->map})
    mergeLocation(b.location, map->loc());
  Value *y = b.value(Op::Attention, operands, op.attributes());
  return y && rw.replace(op, b.reshape(y, op.result()->type().shape()));
}

/// The scalar constant that all elements of `v` are where a map of nothing makes it, however it is
/// moved or picked from then: of extents that are not known there is no literal. Null: none.
static const Operation *everyElementOf(const Value *v) {
  while (v->def() && v->def()->isAny(Op::Reshape, Op::Transpose, Op::Slice, Op::Gather))
    v = v->def()->operand(0);
  const Operation *map = v->def();
  if (!map || !map->is(Op::Map) || map->numOperands() > 0)
    return nullptr;
  const Operation *element = map->region().terminator()->operand(v->index())->def();
  return element && element->is(Op::Const) ? element : nullptr;
}

// map(x, splat c) { f(x, c) } = map(x) { f(x, const c) }
bool splatOperand(Operation &op, Rewriter &rw) {
  if (!op.isAny(Op::Map, Op::Reduce))
    return false;
  for (unsigned i = 0; i < op.numOperands(); ++i) {
    const Operation *element = everyElementOf(op.operand(i));
    if (!element &&
        (!hasScalarConst(op.operand(i)->type().element()) || !splatValue(op.operand(i))))
      continue;
    if (op.is(Op::Reduce) && op.numOperands() == 1)
      return false; // the extents of a reduction stay visible in an operand
    if (!rw.fire(op))
      return false;
    Value *argument = elementArgument(op, i);
    if (element) {
      std::map<const Value *, Value *> none;
      Operation *copy = element->clone(none);
      op.region().insertBefore(&op.region().front(), copy);
      argument->replaceAllUsesWith(copy->result());
    } else {
      Builder b(&op.region().front(), rw.context().diagnostics);
      argument->replaceAllUsesWith(scalarFromTensor(b, *constantValue(op.operand(i)), 0));
    }
    dropMapOperand(op, i);
    return true;
  }
  return false;
}

// map(x, y) { f(x) } = map(x) { f(x) }
bool deadOperand(Operation &op, Rewriter &rw) {
  if (!op.isAny(Op::Map, Op::Reduce))
    return false;
  for (unsigned i = 0; i < op.numOperands(); ++i) {
    if (elementArgument(op, i)->hasUses() || (op.is(Op::Reduce) && op.numOperands() == 1))
      continue;
    if (!rw.fire(op))
      return false;
    dropMapOperand(op, i);
    return true;
  }
  return false;
}

// map(x, x) { f(a, b) } = map(x) { f(a, a) }, where both are read alike
bool duplicateOperand(Operation &op, Rewriter &rw) {
  if (!op.isAny(Op::Map, Op::Reduce))
    return false;
  for (unsigned i = 0; i < op.numOperands(); ++i)
    for (unsigned k = i + 1; k < op.numOperands(); ++k) {
      if (op.operand(i) != op.operand(k) || indexMap(op, i) != indexMap(op, k))
        continue;
      if (!rw.fire(op))
        return false;
      elementArgument(op, k)->replaceAllUsesWith(elementArgument(op, i));
      dropMapOperand(op, k);
      return true;
    }
  return false;
}

// map(map(x) { yield x }) reads x itself: broadcasts and permutations become index maps
bool copyIntoMap(Operation &op, Rewriter &rw) {
  if (!op.isAny(Op::Map, Op::Reduce))
    return false;
  for (unsigned i = 0; i < op.numOperands(); ++i) {
    Value *v = op.operand(i);
    Operation *copy = v->def();
    if (!copy || !copy->is(Op::Map) || !isCopyBody(copy->region()))
      continue;
    Value *yielded = copy->region().terminator()->operand(v->index());
    Value *x = copy->operand(yielded->index());
    if (x->type().layout() != v->type().layout() && !x->type().layout().isRowMajor())
      continue;
    const bool sameLayout = x->type().layout() == v->type().layout();
    if (!sameLayout && x->type().rank() == v->type().rank())
      continue; // a layout conversion that was put there on purpose
    const IndexMap &outer = indexMap(op, i), &inner = indexMap(*copy, yielded->index());
    IndexMap composed;
    for (int64_t d : inner)
      composed.push_back(d < 0 ? -1 : outer[d]);
    return rw.fire(op) && readInstead(op, i, x, composed);
  }
  return false;
}

/// For a reshape that only adds or drops extents of 1: the result dimension that each operand
/// dimension becomes, −1 where it is dropped. False for other reshapes.
static bool unitReshape(Type from, Type to, IndexMap &becomes) {
  becomes.assign(from.rank(), -1);
  unsigned d = 0;
  for (unsigned k = 0; k < to.rank(); ++k) {
    if (to.dim(k).isConstant(1))
      continue;
    while (d < from.rank() && from.dim(d).isConstant(1))
      ++d;
    if (d == from.rank() || from.dim(d) != to.dim(k))
      return false;
    becomes[d++] = k;
  }
  for (; d < from.rank(); ++d)
    if (!from.dim(d).isConstant(1))
      return false;
  return true;
}

static Dim spaceElements(const Operation &op) {
  Dim n = op.operand(0)->type().context().dim(1);
  for (Dim d : iterationSpace(op))
    n = n * d;
  return n;
}

static bool readsIndex(Region &body) {
  return llvm::any_of(body, [](Operation &s) { return s.is(Op::Index); });
}

/// Whether a map reads, where it writes, another tensor of its own shape that is neither constant
/// nor reshaped from the shape `from`: that one would be reshaped instead.
static bool readsOfOwnShape(const Operation &map, unsigned except, Type from) {
  for (unsigned i = 0; i < map.numOperands(); ++i) {
    const Value *v = map.operand(i);
    const Operation *def = v->def();
    if (i != except && readsInPlace(map, i) && !constantValue(v) &&
        !(def && def->is(Op::Reshape) && def->operand(0)->type().shape() == from.shape()))
      return true;
  }
  return false;
}

// map(reshape x, c) = reshape(map(x, c)), where c vary along last dimensions that the reshape
// leaves alone at most, or it only adds or drops extents of 1: reshapes gather behind the
// computation, where they cancel
bool reshapeBelowMap(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Map))
    return false;
  const unsigned rank = op.result()->type().rank();
  Operation *reshape = nullptr;
  unsigned at = 0;
  for (unsigned i = 0; i < op.numOperands(); ++i) {
    Operation *def = op.operand(i)->def();
    if (!reshape && def && def->is(Op::Reshape) && isIdentityMap(indexMap(op, i), rank) &&
        op.operand(i)->type().shape() == op.result()->type().shape() &&
        op.operand(i)->hasOneUse()) {
      reshape = def;
      at = i;
    }
  }
  if (!reshape || !rowMajor(op.result()) || !rowMajor(reshape->operand(0)))
    return false;
  Type from = reshape->operand(0)->type();
  IndexMap becomes; // by dimension of `from`
  llvm::SmallVector<int64_t, 6> dims(rank, -1);
  if (unitReshape(from, reshape->result()->type(), becomes)) {
    for (unsigned d = 0; d < from.rank(); ++d)
      if (becomes[d] >= 0)
        dims[becomes[d]] = d;
    if (readsOfOwnShape(op, at, from))
      return false;
  } else {
    unsigned same = 0; // last dimensions
    while (same < std::min(rank, from.rank()) &&
           from.dim(from.rank() - 1 - same) == op.result()->type().dim(rank - 1 - same)) {
      ++same;
      dims[rank - same] = from.rank() - same;
    }
    for (unsigned i = 0; i < op.numOperands(); ++i)
      if (i != at &&
          llvm::any_of(indexMap(op, i), [&](int64_t d) { return d >= 0 && dims[d] < 0; }))
        return false;
    if (readsIndex(op.region()))
      return false;
  }
  if (!rw.fire(op))
    return false;
  auto operands = op.operands();
  IntLists maps = op.intListsAttr("maps");
  operands[at] = reshape->operand(0);
  for (unsigned i = 0; i < maps.size(); ++i) {
    if (i == at)
      maps[i] = identityMap(from.rank());
    else
      for (int64_t &d : maps[i])
        d = d < 0 ? -1 : dims[d];
  }
  Builder b = rw.before(op);
  mergeLocation(b.location, reshape->loc());
  Operation *map = mapOver(b, op, operands, maps, from.shape(), dims);
  if (!map)
    return false;
  return rw.replace(op, reshapedResults(b, *map, op));
}

// map(reshape x, y) = map(x, y), where x is broadcast and the reshape only adds or drops extents of
// 1
bool unitReshapeIntoMap(Operation &op, Rewriter &rw) {
  if (!op.isAny(Op::Map, Op::Reduce))
    return false;
  for (unsigned i = 0; i < op.numOperands(); ++i) {
    Operation *reshape = op.operand(i)->def();
    if (!reshape || !reshape->is(Op::Reshape))
      continue;
    Type from = reshape->operand(0)->type(), to = reshape->result()->type();
    if (!from.layout().isRowMajor() || !to.layout().isRowMajor())
      continue;
    IndexMap becomes;
    if (!unitReshape(from, to, becomes) || from.elements() == spaceElements(op))
      continue;
    IndexMap composed;
    for (int64_t d : becomes)
      composed.push_back(d < 0 ? -1 : indexMap(op, i)[d]);
    return rw.fire(op) && readInstead(op, i, reshape->operand(0), composed);
  }
  return false;
}

// Scalar algebra; see SimplifyBody.cpp, which asks under the ids of its own patterns.
bool scalarBody(Operation &op, Rewriter &rw) {
  return op.isAny(Op::Map, Op::Reduce) && simplifyBody(op, rw.context());
}

// reduce(x) over axes of extent 1 = reshape(x), when the combiner is one function with identity
bool unitReduce(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Reduce) || op.numOperands() != 1 || op.numResults() != 1)
    return false;
  IterationSpace space = iterationSpace(op);
  Type x = op.operand(0)->type(), y = op.result()->type();
  if (!isIdentityMap(indexMap(op, 0), x.rank()) || x.rank() != space.size() ||
      !x.layout().isRowMajor() || !y.layout().isRowMajor() || x.element() != y.element())
    return false;
  for (int64_t a : op.intsAttr("axes"))
    if (!space[a].isConstant(1))
      return false;
  Operation *end = op.region().terminator(), *f = end->operand(0)->def();
  Value *acc = op.region().argument(0), *element = op.region().argument(1);
  if (!f || !f->isAny(Op::Add, Op::Mul, Op::Min, Op::Max, Op::LogicalAnd, Op::LogicalOr) ||
      &op.region().front() != f ||
      !((f->operand(0) == acc && f->operand(1) == element) ||
        (f->operand(1) == acc && f->operand(0) == element)))
    return false;
  return rw.fire(op) && rw.replace(op, rw.before(op).reshape(op.operand(0), y.shape()));
}

} // namespace tenon::canonicalize
