// Implements what comes before fusion, and the record of decisions.
#include "passes/fuse/Prepare.h"

#include "passes/Maps.h"
#include "passes/Rewrite.h"
#include "passes/ViewLayout.h"
#include "passes/fuse/Clusters.h"

namespace tenon {

bool widens(const Operation &op) {
  if (!op.is(Op::Map) || op.numResults() != 1)
    return false;
  const Element to = op.result()->type().element();
  for (unsigned i = 0; i < op.numOperands(); ++i) {
    Type t = op.operand(i)->type();
    if (t.shape() == op.result()->type().shape())
      return isInteger(t.element()) && bitWidth(t.element()) <= 8 &&
             (isFloat(to) || bitWidth(to) > 8);
  }
  return false;
}

void recordFusion(PassContext &context, bool accepted, llvm::StringRef id,
                  const Operation &producer, const Operation &consumer, llvm::StringRef reason,
                  int64_t saved) {
  FusionDecision r;
  r.accepted = accepted;
  r.id = id.str();
  r.nodes = producer.loc();
  mergeLocation(r.nodes, consumer.loc());
  r.reason = reason.str();
  r.bytesSaved = saved;
  context.fusions.push_back(std::move(r));
}

namespace {

// map(transpose x) reads x itself through another index map (fuse.transpose-read)
bool readTransposes(Region &region, PassContext &context) {
  bool changed = false;
  for (Operation &op : region) {
    if (!op.is(Op::Map))
      continue;
    for (unsigned i = 0; i < op.numOperands(); ++i) {
      Operation *t = op.operand(i)->def();
      if (!t || !t->is(Op::Transpose) || isView(*t))
        continue;
      // Worth it only when the transposed copy disappears.
      if (!llvm::all_of(t->result()->uses(), [](Use *u) { return u->owner()->is(Op::Map); })) {
        recordFusion(context, false, "fuse.transpose-read", *t, op,
                     "the transposed value is needed elsewhere", bytesOf(t->result()->type()));
        continue;
      }
      if (!context.fire("fuse.transpose-read", op))
        continue;
      recordFusion(context, true, "fuse.transpose-read", *t, op, "",
                   2 * bytesOf(t->result()->type()));
      IndexMap composed(t->intsAttr("perm").size());
      for (size_t d = 0; d < composed.size(); ++d)
        composed[t->intsAttr("perm")[d]] = indexMap(op, i)[d];
      readInstead(op, i, t->operand(0), composed);
      mergeLocation(op.loc(), t->loc());
      changed = true;
    }
  }
  return changed | eraseDeadOps(region);
}

// A dequantisation with several readers is computed by each of them (fuse.duplicate)
bool duplicateDequantize(Region &region, PassContext &context) {
  bool changed = false;
  for (Operation &op : region.opsEarlyInc()) {
    if (!widens(op) || op.result()->hasOneUse() || !op.result()->hasUses())
      continue;
    auto uses = op.result()->uses();
    for (size_t k = 1; k < uses.size(); ++k) {
      Operation *reader = uses[k]->owner();
      if (!reader->is(Op::Map) && !isContraction(*reader))
        continue;
      if (!context.fire("fuse.duplicate", op))
        continue;
      std::map<const Value *, Value *> none;
      Operation *copy = op.clone(none);
      region.insertBefore(reader, copy);
      uses[k]->set(copy->result());
      recordFusion(context, true, "fuse.duplicate", op, *reader, "",
                   bytesOf(op.result()->type()) - bytesOf(op.operand(0)->type()));
      changed = true;
    }
  }
  return changed;
}

// concat(pad(x)): a map that reads the pad writes the concat's window (fuse.concat-copy)
bool copyIntoConcats(Region &region, PassContext &context) {
  bool changed = false;
  for (Operation &op : region) {
    if (!op.is(Op::Concat) || !context.target.movementReads)
      continue;
    const auto axis = unsigned(op.intAttr("axis"));
    int64_t start = 0;
    for (unsigned i = 0; i < op.numOperands(); ++i) {
      Value *v = op.operand(i);
      if (!v->type().dim(axis).isConstant())
        break; // later windows start at a place known only at run time
      const Type window = v->type().withLayout(windowLayout(op.result()->type(), axis, start));
      start += v->type().dim(axis).constant();
      Operation *def = v->def();
      if (!def || !isMovement(*def) || def->is(Op::Reshape) || isView(*def) || !v->hasOneUse())
        continue;
      if (!context.fire("fuse.concat-copy", op))
        continue;
      recordFusion(context, true, "fuse.concat-copy", *def, op, "", 2 * bytesOf(v->type()));
      Operation *copy = Operation::create(
          Op::Map, {v}, {{"maps", IntLists{identityMap(window.rank())}}}, {window}, 1);
      copy->loc() = op.loc();
      copy->result()->setHint(v->hint());
      region.insertBefore(&op, copy);
      Value *s = copy->region().addArgument(Type::scalar(window.context(), window.element()));
      copy->region().push_back(Operation::create(Op::Yield, {s}, {}, {}));
      op.setOperand(i, copy->result());
      changed = true;
    }
  }
  return changed;
}

/// What makes `v`, through maps that nothing else reads, with a kernel of its own; null where a map
/// does.
const Operation *anchorOf(const Value *v) {
  const Operation *def = v->def();
  while (def && def->is(Op::Map) && def->numResults() == 1) {
    const Value *inner = nullptr;
    for (unsigned i = 0; i < def->numOperands() && !inner; ++i)
      if (readsInPlace(*def, i) && def->operand(i)->hasOneUse() && def->operand(i)->def())
        inner = def->operand(i);
    def = inner ? inner->def() : nullptr;
  }
  return def && (isContraction(*def) || def->is(Op::Normalize)) ? def : nullptr;
}

/// Whether a map reads operand i in any shape of as many elements: whole and in place by others,
/// too, or not at all by position.
bool readsInAnyShape(const Operation &map, unsigned i) {
  const Value *v = map.operand(i);
  if (llvm::all_of(indexMap(map, i), [](int64_t d) { return d < 0; }))
    return true;
  return readsInPlace(map, i) && v->type().layout().isRowMajor() && !constantValue(v) &&
         !v->hasOneUse();
}

// map(x, reshape(y)) = reshape(map(reshape(x), y)), where y ends a kernel and x is needed
// elsewhere: what is added to a product or a norm joins it (fuse.reshaped-read)
bool computeBeforeReshapes(Region &region, PassContext &context) {
  bool changed = false;
  for (Operation &op : region.opsEarlyInc()) {
    if (!op.is(Op::Map) || op.numResults() != 1 || !op.result()->type().layout().isRowMajor() ||
        llvm::any_of(op.region(), [](const Operation &s) { return s.is(Op::Index); }))
      continue;
    for (unsigned i = 0; i < op.numOperands(); ++i) {
      Value *v = op.operand(i);
      Operation *reshape = v->def();
      if (!reshape || !reshape->is(Op::Reshape) || !v->hasOneUse() || !readsInPlace(op, i) ||
          !v->type().layout().isRowMajor())
        continue;
      Value *y = reshape->operand(0);
      const Type from = y->type();
      if (!y->hasOneUse() || !from.layout().isRowMajor() || !anchorOf(y))
        continue;
      bool others = op.numOperands() > 1;
      for (unsigned k = 0; k < op.numOperands(); ++k)
        others &= k == i || readsInAnyShape(op, k);
      if (!others || !context.fire("fuse.reshaped-read", op))
        continue;
      recordFusion(context, true, "fuse.reshaped-read", *reshape, op, "", 2 * bytesOf(from));
      Builder b(&op, context.diagnostics);
      auto operands = op.operands();
      IntLists maps = op.intListsAttr("maps");
      for (unsigned k = 0; k < op.numOperands(); ++k) {
        if (!readsInPlace(op, k)) {
          maps[k] = IndexMap(operands[k]->type().rank(), -1);
          continue;
        }
        b.location = operands[k]->def() ? operands[k]->def()->loc() : op.loc();
        operands[k] = k == i ? y : b.reshape(operands[k], from.shape());
        maps[k] = identityMap(from.rank());
      }
      b.location = op.loc();
      mergeLocation(b.location, reshape->loc());
      Operation *map = mapOver(b, op, operands, maps, from.shape(),
                               llvm::SmallVector<int64_t, 6>(op.result()->type().rank(), -1));
      if (!map)
        break;
      op.result()->replaceAllUsesWith(b.reshape(map->result(), op.result()->type().shape()));
      changed = true;
      break;
    }
  }
  return changed && (eraseDeadOps(region), true);
}

} // namespace

bool prepareFusion(Region &region, PassContext &context) {
  bool changed = readTransposes(region, context);
  changed |= computeBeforeReshapes(region, context);
  changed |= duplicateDequantize(region, context);
  return changed | copyIntoConcats(region, context);
}

} // namespace tenon
