// canonicalize: removes what does nothing and merges what one operation can say.
//
//   %a = transpose %x {perm = [1, 0]}          %c = map %x { relu }
//   %b = transpose %a {perm = [1, 0]}    →
//   %c = map %b, splat 0 { max }
//
// No pattern here trades one cost for another; those that need a cost stand in passes of their
// own. Types must agree including layouts, so that a layout conversion is never taken for a no-op.
#include "passes/Canonicalize.h"

#include "passes/Maps.h"
#include "passes/Rewrite.h"
#include "passes/SimplifyBody.h"

namespace tenon {
namespace {

bool rowMajor(const Value *v) { return v->type().layout().isRowMajor(); }

//===----------------------------------------------------------------------===//
// map and reduce
//===----------------------------------------------------------------------===//

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

// map(x, splat c) { f(x, c) } = map(x) { f(x, const c) }
bool splatOperand(Operation &op, Rewriter &rw) {
  if (!op.isAny(Op::Map, Op::Reduce))
    return false;
  for (unsigned i = 0; i < op.numOperands(); ++i) {
    if (!hasScalarConst(op.operand(i)->type().element()) || !splatValue(op.operand(i)))
      continue;
    if (op.is(Op::Reduce) && op.numOperands() == 1)
      return false; // the extents of a reduction stay visible in an operand
    if (!rw.fire(op))
      return false;
    Literal l = constantValue(op.operand(i));
    Value *argument = elementArgument(op, i);
    Builder b(&op.region().front(), rw.context().diagnostics);
    argument->replaceAllUsesWith(scalarFromTensor(b, *l, 0));
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
    if (!rw.fire(op))
      return false;
    Space6 space = iterationSpace(op);
    auto operands = op.operands();
    IntLists maps = op.intListsAttr("maps");
    operands[i] = x;
    maps[i] = composed;
    setMapOperands(op, operands, maps, space);
    return true;
  }
  return false;
}

/// For a reshape that only adds or drops extents of 1: the result dimension that each operand
/// dimension becomes, −1 where it is dropped. False for other reshapes.
bool unitReshape(Type from, Type to, IndexMap &becomes) {
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

Dim spaceElements(const Operation &op) {
  Dim n = op.operand(0)->type().context().dim(1);
  for (Dim d : iterationSpace(op))
    n = n * d;
  return n;
}

bool readsIndex(Region &body) {
  return llvm::any_of(body, [](Operation &s) { return s.is(Op::Index); });
}

// map(reshape x, c) = reshape(map(x, c)), where c are scalars, or the reshape only adds or drops
// extents of 1: reshapes gather behind the computation, where they cancel
bool reshapeBelowMap(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Map))
    return false;
  const unsigned rank = op.result()->type().rank();
  Operation *reshape = nullptr;
  unsigned at = 0;
  bool othersScalar = !readsIndex(op.region());
  for (unsigned i = 0; i < op.numOperands(); ++i) {
    Operation *def = op.operand(i)->def();
    if (!reshape && def && def->is(Op::Reshape) && isIdentityMap(indexMap(op, i), rank) &&
        op.operand(i)->type().shape() == op.result()->type().shape() &&
        op.operand(i)->hasOneUse()) {
      reshape = def;
      at = i;
    } else {
      othersScalar &= llvm::all_of(indexMap(op, i), [](int64_t d) { return d < 0; });
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
  } else if (!othersScalar) {
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
  Operation *map =
      b.map(operands, maps, from.shape(), [&](Builder &inner, llvm::ArrayRef<Value *> args) {
        std::map<const Value *, Value *> values;
        for (unsigned i = 0; i < args.size(); ++i)
          values[op.region().argument(i)] = args[i];
        inlineBody(op.region(), inner, values, dims);
        llvm::SmallVector<Value *, 2> yields;
        for (Value *v : op.region().terminator()->operands())
          yields.push_back(values[v]);
        return yields;
      });
  if (!map)
    return false;
  llvm::SmallVector<Value *, 2> results;
  for (unsigned r = 0; r < op.numResults(); ++r) {
    map->result(r)->setHint(op.result(r)->hint());
    results.push_back(b.reshape(map->result(r), op.result(r)->type().shape()));
  }
  rw.replace(op, results);
  return true;
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
    if (!rw.fire(op))
      return false;
    Space6 space = iterationSpace(op);
    auto operands = op.operands();
    IntLists maps = op.intListsAttr("maps");
    operands[i] = reshape->operand(0);
    maps[i] = composed;
    setMapOperands(op, operands, maps, space);
    return true;
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
  Space6 space = iterationSpace(op);
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
  if (!rw.fire(op))
    return false;
  rw.replace(op, rw.before(op).reshape(op.operand(0), y.shape()));
  return true;
}

//===----------------------------------------------------------------------===//
// Movement
//===----------------------------------------------------------------------===//

// reshape(x) to the shape of x = x
bool reshapeNoop(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Reshape) || op.operand(0)->type() != op.result()->type() || !rw.fire(op))
    return false;
  rw.replace(op, op.operand(0));
  return true;
}

// reshape(reshape(x)) = reshape(x)
bool reshapeOfReshape(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Reshape))
    return false;
  Operation *inner = op.operand(0)->def();
  if (!inner || !inner->is(Op::Reshape) || !rowMajor(op.operand(0)) || !rowMajor(op.result()) ||
      !rowMajor(inner->operand(0)) || !rw.fire(op))
    return false;
  mergeLocation(op.loc(), inner->loc());
  op.setOperand(0, inner->operand(0));
  return true;
}

// transpose(x) in the order of x = x
bool transposeNoop(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Transpose) || op.operand(0)->type() != op.result()->type() ||
      !isIdentityMap(op.intsAttr("perm"), op.result()->type().rank()) || !rw.fire(op))
    return false;
  rw.replace(op, op.operand(0));
  return true;
}

// transpose_q(transpose_p(x)) = transpose_(p∘q)(x)
bool transposeOfTranspose(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Transpose))
    return false;
  Operation *inner = op.operand(0)->def();
  if (!inner || !inner->is(Op::Transpose) || !rowMajor(op.operand(0)) || !rw.fire(op))
    return false;
  Ints composed;
  for (int64_t d : op.intsAttr("perm"))
    composed.push_back(inner->intsAttr("perm")[d]);
  mergeLocation(op.loc(), inner->loc());
  op.set("perm", composed);
  op.setOperand(0, inner->operand(0));
  return true;
}

// transpose(x) = reshape(x), when the extents other than 1 keep their order
bool unitTranspose(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Transpose) || !rowMajor(op.operand(0)) || !rowMajor(op.result()))
    return false;
  int64_t last = -1;
  for (int64_t d : op.intsAttr("perm")) {
    if (op.operand(0)->type().dim(unsigned(d)).isConstant(1))
      continue;
    if (d < last)
      return false;
    last = d;
  }
  if (!rw.fire(op))
    return false;
  rw.replace(op, rw.before(op).reshape(op.operand(0), op.result()->type().shape()));
  return true;
}

bool isFullSlice(const Operation &op) {
  for (int64_t s : op.intsAttr("steps"))
    if (s != 1)
      return false;
  return op.operand(0)->type().shape() == op.result()->type().shape();
}

// slice(x) that takes everything = x
bool sliceNoop(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Slice) || !isFullSlice(op) || op.operand(0)->type() != op.result()->type() ||
      !rw.fire(op))
    return false;
  rw.replace(op, op.operand(0));
  return true;
}

// slice(slice(x)) = slice(x): starts s₁ + t₁·s₂, steps t₁·t₂
bool sliceOfSlice(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Slice))
    return false;
  Operation *inner = op.operand(0)->def();
  if (!inner || !inner->is(Op::Slice) || !rowMajor(op.operand(0)) || !rw.fire(op))
    return false;
  Dims starts;
  Ints steps;
  for (unsigned d = 0; d < op.result()->type().rank(); ++d) {
    const int64_t t1 = inner->intsAttr("steps")[d];
    Context &c = op.result()->type().context();
    starts.push_back(inner->dimsAttr("starts")[d] + c.dim(t1) * op.dimsAttr("starts")[d]);
    steps.push_back(t1 * op.intsAttr("steps")[d]);
  }
  op.set("starts", starts);
  op.set("steps", steps);
  mergeLocation(op.loc(), inner->loc());
  op.setOperand(0, inner->operand(0));
  return true;
}

// slice(concat(…, xᵢ, …)) = slice(xᵢ), when it takes elements of xᵢ only
bool sliceOfConcat(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Slice))
    return false;
  Operation *concat = op.operand(0)->def();
  if (!concat || !concat->is(Op::Concat) || !rowMajor(op.operand(0)) || !rowMajor(op.result()))
    return false;
  const unsigned axis = unsigned(concat->intAttr("axis"));
  Dim start = op.dimsAttr("starts")[axis], size = op.dimsAttr("sizes")[axis];
  const int64_t step = op.intsAttr("steps")[axis];
  if (!start.isConstant() || !size.isConstant() || size.isConstant(0))
    return false;
  const int64_t first = start.constant(), last = first + (size.constant() - 1) * step;
  int64_t at = 0;
  for (Value *x : concat->operands()) {
    Dim extent = x->type().dim(axis);
    if (!extent.isConstant())
      return false;
    const int64_t end = at + extent.constant();
    if (std::min(first, last) >= at && std::max(first, last) < end) {
      if (!rowMajor(x) || !rw.fire(op))
        return false;
      Dims starts = op.dimsAttr("starts");
      starts[axis] = op.result()->type().context().dim(first - at);
      mergeLocation(op.loc(), concat->loc());
      op.set("starts", starts);
      op.setOperand(0, x);
      return true;
    }
    at = end;
  }
  return false;
}

bool allZero(const Dims &dims) {
  return llvm::all_of(dims, [](Dim d) { return d.isConstant(0); });
}

// pad(x) by nothing = x
bool padNoop(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Pad) || !allZero(op.dimsAttr("low")) || !allZero(op.dimsAttr("high")) ||
      op.operand(0)->type() != op.result()->type() || !rw.fire(op))
    return false;
  rw.replace(op, op.operand(0));
  return true;
}

// pad_c(pad_c(x)) = pad_c(x) by the sums, for constant padding with one value
bool padOfPad(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Pad) || op.wordAttr("mode", "constant") != "constant")
    return false;
  Operation *inner = op.operand(0)->def();
  if (!inner || !inner->is(Op::Pad) || inner->wordAttr("mode", "constant") != "constant" ||
      !rowMajor(op.operand(0)) || inner->numOperands() != op.numOperands())
    return false;
  if (op.numOperands() > 1 && op.operand(1) != inner->operand(1)) {
    auto a = splatValue(op.operand(1)), b = splatValue(inner->operand(1));
    if (!a || !b || *a != *b)
      return false;
  }
  if (!rw.fire(op))
    return false;
  Dims low, high;
  for (unsigned d = 0; d < op.result()->type().rank(); ++d) {
    low.push_back(op.dimsAttr("low")[d] + inner->dimsAttr("low")[d]);
    high.push_back(op.dimsAttr("high")[d] + inner->dimsAttr("high")[d]);
  }
  op.set("low", low);
  op.set("high", high);
  mergeLocation(op.loc(), inner->loc());
  op.setOperand(0, inner->operand(0));
  return true;
}

// concat(x) = x;  concat(x, empty) = concat(x)
bool concatNoop(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Concat))
    return false;
  const unsigned axis = unsigned(op.intAttr("axis"));
  llvm::SmallVector<Value *, 4> kept;
  for (Value *v : op.operands())
    if (!v->type().dim(axis).isConstant(0))
      kept.push_back(v);
  if (kept.size() == 1 && kept[0]->type() == op.result()->type()) {
    if (!rw.fire(op))
      return false;
    rw.replace(op, kept[0]);
    return true;
  }
  if (kept.empty() || kept.size() == op.numOperands() || !rw.fire(op))
    return false;
  op.setOperands(kept);
  return true;
}

// concat(concat(x, y), z) = concat(x, y, z) along the same axis
bool concatOfConcat(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Concat))
    return false;
  for (unsigned i = 0; i < op.numOperands(); ++i) {
    Operation *inner = op.operand(i)->def();
    if (!inner || !inner->is(Op::Concat) || inner->intAttr("axis") != op.intAttr("axis") ||
        !op.operand(i)->hasOneUse() || !rowMajor(op.operand(i)))
      continue;
    if (!rw.fire(op))
      return false;
    llvm::SmallVector<Value *, 8> operands;
    for (unsigned k = 0; k < op.numOperands(); ++k) {
      if (k != i) {
        operands.push_back(op.operand(k));
        continue;
      }
      auto list = inner->operands();
      operands.append(list.begin(), list.end());
    }
    mergeLocation(op.loc(), inner->loc());
    op.setOperands(operands);
    return true;
  }
  return false;
}

/// The place of the operands of `part` as a run among those of `whole`; -1 without one.
int runOf(const Operation &part, const Operation &whole) {
  const auto all = whole.operands(), some = part.operands();
  for (unsigned at = 0; at + some.size() <= all.size(); ++at)
    if (std::equal(some.begin(), some.end(), all.begin() + at))
      return int(at);
  return -1;
}

// y = concat(a, b);  concat(…, a, b, …) = concat(…, y, …)
// Networks with dense connections concatenate ever longer lists: each part then has one place.
bool concatRun(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Concat) || !rowMajor(op.result()))
    return false;
  Operation *best = nullptr;
  int place = -1;
  for (Value *v : op.operands())
    for (Use *u : v->uses()) {
      Operation *part = u->owner();
      if (!part->is(Op::Concat) || part == &op || part->parent() != op.parent() ||
          part->intAttr("axis") != op.intAttr("axis") || !rowMajor(part->result()) ||
          part->numOperands() < 2 || part->numOperands() >= op.numOperands() ||
          (best && part->numOperands() <= best->numOperands()) || !part->isBefore(&op))
        continue;
      const int at = runOf(*part, op);
      if (at < 0)
        continue;
      best = part;
      place = at;
    }
  // One that nothing else reads would be dissolved again (concat-of-concat).
  if (!best || best->result()->uses().empty() || !rw.fire(op))
    return false;
  const auto all = op.operands();
  llvm::SmallVector<Value *, 8> operands(all.begin(), all.begin() + place);
  operands.push_back(best->result());
  operands.append(all.begin() + place + best->numOperands(), all.end());
  op.setOperands(operands);
  return true;
}

// gather(x, constant scalar k) = reshape(slice(x, k))
bool gatherConstant(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Gather) || !rowMajor(op.operand(0)) || !rowMajor(op.result()))
    return false;
  Literal index = constantValue(op.operand(1));
  Type x = op.operand(0)->type();
  const unsigned axis = unsigned(op.intAttr("axis"));
  if (!index || index->size() != 1)
    return false;
  Context &c = x.context();
  int64_t k = index->intAt(0);
  if (k < 0) {
    if (!x.dim(axis).isConstant())
      return false;
    k += x.dim(axis).constant();
  }
  if (k < 0 || k >= x.dim(axis).lower() || !rw.fire(op))
    return false;
  Dims starts(x.rank(), c.dim(0)), sizes(x.shape().begin(), x.shape().end());
  starts[axis] = c.dim(k);
  sizes[axis] = c.dim(1);
  Builder b = rw.before(op);
  Value *slice = b.value(Op::Slice, {op.operand(0)},
                         {{"starts", starts}, {"sizes", sizes}, {"steps", Ints(x.rank(), 1)}});
  rw.replace(op, b.reshape(slice, op.result()->type().shape()));
  return true;
}

//===----------------------------------------------------------------------===//
// Windows and control flow
//===----------------------------------------------------------------------===//

bool all(const Ints &list, int64_t v) {
  return llvm::all_of(list, [&](int64_t x) { return x == v; });
}

// pool(x) over windows of one element = x
bool poolNoop(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Pool) || op.numResults() != 1 || !all(op.intsAttr("kernel"), 1) ||
      !all(op.intsAttr("strides"), 1) || !all(op.intsAttr("pads"), 0) ||
      op.operand(0)->type() != op.result()->type() || !rw.fire(op))
    return false;
  rw.replace(op, op.operand(0));
  return true;
}

// resize(x) to the size of x by scales of 1 = x
bool resizeNoop(Operation &op, Rewriter &rw) {
  if (!op.is(Op::Resize) || op.operand(0)->type() != op.result()->type() ||
      op.wordAttr("coordinates") == "tf_crop_and_resize")
    return false;
  for (double s : op.floatsAttr("scales"))
    if (s != 1)
      return false;
  if (!rw.fire(op))
    return false;
  rw.replace(op, op.operand(0));
  return true;
}

// if true { A } { B } = A
bool ifConstant(Operation &op, Rewriter &rw) {
  if (!op.is(Op::If))
    return false;
  Literal cond = constantValue(op.operand(0));
  if (!cond || cond->size() != 1 || !rw.fire(op))
    return false;
  Region &taken = op.region(cond->at(0) != 0 ? 0 : 1);
  std::map<const Value *, Value *> map;
  for (unsigned i = 0; i < taken.numArguments(); ++i)
    map[taken.argument(i)] = op.operand(i + 1);
  for (Operation &inner : taken)
    if (!inner.isTerminator()) {
      Operation *copy = inner.clone(map);
      op.parent()->insertBefore(&op, copy);
    }
  llvm::SmallVector<Value *, 4> values;
  for (Value *v : taken.terminator()->operands()) {
    auto it = map.find(v);
    values.push_back(it == map.end() ? v : it->second);
  }
  rw.replace(op, values);
  return true;
}

const Pattern kPatterns[] = {
    {"canonicalize.splat-operand", splatOperand},
    {"canonicalize.scalar-fold", scalarBody},
    {"canonicalize.dead-operand", deadOperand},
    {"canonicalize.duplicate-operand", duplicateOperand},
    {"canonicalize.copy-into-map", copyIntoMap},
    {"canonicalize.reshape-below-map", reshapeBelowMap},
    {"canonicalize.unit-reshape-into-map", unitReshapeIntoMap},
    {"canonicalize.identity-map", identityMapPattern},
    {"canonicalize.unit-reduce", unitReduce},
    {"canonicalize.reshape-noop", reshapeNoop},
    {"canonicalize.reshape-of-reshape", reshapeOfReshape},
    {"canonicalize.transpose-noop", transposeNoop},
    {"canonicalize.transpose-of-transpose", transposeOfTranspose},
    {"canonicalize.unit-transpose", unitTranspose},
    {"canonicalize.slice-noop", sliceNoop},
    {"canonicalize.slice-of-slice", sliceOfSlice},
    {"canonicalize.slice-of-concat", sliceOfConcat},
    {"canonicalize.pad-noop", padNoop},
    {"canonicalize.pad-of-pad", padOfPad},
    {"canonicalize.concat-noop", concatNoop},
    {"canonicalize.concat-of-concat", concatOfConcat},
    {"canonicalize.concat-run", concatRun},
    {"canonicalize.gather-constant", gatherConstant},
    {"canonicalize.pool-noop", poolNoop},
    {"canonicalize.resize-noop", resizeNoop},
    {"canonicalize.if-constant", ifConstant},
};

} // namespace

bool runCanonicalize(Graph &graph, PassContext &context) {
  return applyPatterns(graph, context, kPatterns);
}

} // namespace tenon
