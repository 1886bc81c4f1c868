// eliminate-transpose: moves transposes down until they cancel or reach the outputs.
//
//   %t = transpose %x {perm = [0, 2, 1]}          %s = map %x, %c[0, 2, 1] { mul }
//   %m = map %t, %c { mul }                  →    return %s
//   %u = transpose %m {perm = [0, 2, 1]}
//   return %u
//
// Every step keeps the number of transposes or lowers it, and always goes the same way, so the
// pass ends. Composition and cancelling are canonicalize's (transpose-of-transpose). What is left
// is for layout assignment, which makes most transposes views.
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
  Operation *map = b.map(operands, maps, unpermute(result.shape(), perm),
                         [&](Builder &inner, llvm::ArrayRef<Value *> args) {
                           std::map<const Value *, Value *> values;
                           for (unsigned i = 0; i < args.size(); ++i)
                             values[op.region().argument(i)] = args[i];
                           inlineBody(op.region(), inner, values, perm);
                           Value *y = op.region().terminator()->operand(0);
                           return llvm::SmallVector<Value *, 2>{values.count(y) ? values[y] : y};
                         });
  if (!map)
    return false;
  return rw.replace(op, b.transpose(map->result(), perm));
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

const Pattern kPatterns[] = {
    {"eliminate-transpose.map", mapPattern},
    {"eliminate-transpose.reduce", reducePattern},
    {"eliminate-transpose.softmax", softmaxPattern},
    {"eliminate-transpose.normalize", normalizePattern},
    {"eliminate-transpose.slice-pad", slicePadPattern},
    {"eliminate-transpose.concat", concatPattern},
    {"eliminate-transpose.matmul", matmulPattern},
};

} // namespace

bool runEliminateTranspose(Graph &graph, PassContext &context) {
  return applyPatterns(graph, context, kPatterns);
}

} // namespace tenon
