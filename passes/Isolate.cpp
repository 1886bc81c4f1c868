// isolate: every operation that needs a kernel and stands in no group yet gets one of its own.
//
//   %y = conv %x, %w {…}       →       %y = group %x, %w (%a, %b) {
//                                        %c = conv %a, %b {…}
//                                        yield %c
//                                      }
//
// Constants, views (ir/Views.h) and control flow stay outside; the regions of control flow are
// treated alike. With `apart`, as at -O0, results keep memory of their own. Code generation relies
// on this form, so the pass cannot be switched off; at -O0 it is the only one that runs.
#include "passes/Isolate.h"

#include "passes/Rewrite.h"
#include "passes/ViewLayout.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace tenon {

Operation *makeGroup(llvm::ArrayRef<Operation *> ops, Operation *where) {
  llvm::SmallPtrSet<Operation *, 8> inside(ops.begin(), ops.end());
  llvm::SmallVector<Value *, 8> inputs, outputs;
  Location location;
  for (Operation *op : ops) {
    mergeLocation(location, op->loc());
    for (Value *v : op->operands())
      if (!(v->def() && inside.count(v->def())) && !llvm::is_contained(inputs, v))
        inputs.push_back(v);
    for (Value *v : op->results())
      if (llvm::any_of(v->uses(), [&](Use *u) { return !inside.count(u->owner()); }))
        outputs.push_back(v);
  }
  if (outputs.empty()) // kept for an effect: its results remain visible
    for (Value *v : ops.back()->results())
      outputs.push_back(v);
  llvm::SmallVector<Type, 2> types;
  for (Value *v : outputs)
    types.push_back(v->type());

  Operation *group = Operation::create(Op::Group, inputs, {}, types, 1);
  where->parent()->insertBefore(where, group);
  group->loc() = location;
  Region &region = group->region();
  for (Value *v : inputs) {
    Value *argument = region.addArgument(v->type(), v->hint());
    v->replaceUsesIf(argument, [&](Use &u) { return inside.count(u.owner()); });
  }
  for (Operation *op : ops)
    op->moveToEnd(region);
  for (unsigned i = 0; i < outputs.size(); ++i) {
    group->result(i)->setHint(outputs[i]->hint());
    outputs[i]->replaceUsesIf(group->result(i), [&](Use &u) { return !inside.count(u.owner()); });
  }
  region.push_back(Operation::create(Op::Yield, outputs, {}, {}));
  return group;
}

namespace {

bool isolateRegion(Region &region, PassContext &context) {
  bool changed = false;
  llvm::SmallVector<Operation *, 32> ops;
  for (Operation &op : region)
    ops.push_back(&op);
  for (Operation *op : ops) {
    if (op->isAny(Op::If, Op::Loop))
      for (unsigned r = 0; r < op->numRegions(); ++r)
        changed |= isolateRegion(op->region(r), context);
    if (!needsKernel(*op) || !context.fire("isolate.op", *op))
      continue;
    Operation *next = &*std::next(op->getIterator());
    Operation *group = makeGroup({op}, next);
    if (context.option("apart"))
      group->set("apart", true);
    changed = true;
  }
  return changed;
}

} // namespace

bool runIsolate(Graph &graph, PassContext &context) { return isolateRegion(graph.body(), context); }

} // namespace tenon
