// Implements the merging of maps inside groups.
//
//   group (%x, %b) {                              group (%x, %b) {
//     %c = conv %x, …                               %c = conv %x, …
//     %d = map %c, %b { add }              →        %e = map %c, %b { %s = add …
//     %e = map %d { relu }                                            %t = relu %s  yield %t }
//     yield %e }                                    yield %e }
//
// A value that is needed besides stays as a further result of the merged map. Intermediate values
// then never take the rounding of a store, which only matters for types narrower than f32.
#include "passes/MergeMaps.h"

#include "passes/Maps.h"
#include "passes/Rewrite.h"
#include "passes/SimplifyBody.h"

#include "llvm/ADT/SmallPtrSet.h"

namespace tenon {
namespace {

/// The map before `op` in its group whose results `op` reads where it writes, and which nothing
/// but maps read inside the group.
Operation *mergeablePredecessor(Operation &op) {
  const unsigned rank = op.result()->type().rank();
  for (unsigned i = 0; i < op.numOperands(); ++i) {
    Operation *def = op.operand(i)->def();
    if (!def || !def->is(Op::Map) || def->parent() != op.parent())
      continue;
    if (def->result()->type().shape() != op.result()->type().shape())
      continue;
    bool ok = true;
    for (Value *v : def->results())
      for (Use *u : v->uses()) {
        Operation *user = u->owner();
        if (user == &op)
          ok &= isIdentityMap(indexMap(op, u->index()), rank);
        else // everybody else must come after the merged map
          ok &= user->isTerminator() || op.isBefore(user);
      }
    if (ok)
      return def;
  }
  return nullptr;
}

Operation *merge(Operation &first, Operation &second, PassContext &context) {
  Builder b(&second, context.diagnostics);
  b.location = first.loc();
  mergeLocation(b.location, second.loc());
  Operation *merged = mergedMap(b, first, second);
  if (!merged)
    return nullptr;
  unsigned r = 0;
  for (Operation *from : {&first, &second})
    for (Value *v : from->results()) {
      if (from == &first && !isReadBesides(v, second))
        continue;
      Value *to = merged->result(r++);
      to->setType(v->type()); // layouts stay
      to->setHint(v->hint());
      v->replaceAllUsesWith(to);
    }
  second.erase();
  first.erase();
  return merged;
}

} // namespace

bool mergeMaps(Region &region, PassContext &context) {
  bool changed = false;
  for (Operation &group : region) {
    if (group.isAny(Op::If, Op::Loop))
      for (unsigned r = 0; r < group.numRegions(); ++r)
        changed |= mergeMaps(group.region(r), context);
    if (!group.is(Op::Group))
      continue;
    // What was merged is made simple once, at the end: a chain's body grows with every merge.
    llvm::SmallPtrSet<Operation *, 4> grown;
    for (bool again = true; again;) {
      again = false;
      for (Operation &op : group.region()) {
        if (!op.is(Op::Map))
          continue;
        Operation *first = mergeablePredecessor(op);
        if (!first || !context.fire("fuse.merge-maps", group))
          continue;
        grown.erase(first);
        grown.erase(&op);
        Operation *merged = merge(*first, op, context);
        if (!merged)
          return changed;
        grown.insert(merged);
        again = changed = true;
        break; // the list has changed under the iteration
      }
    }
    for (Operation &op : group.region())
      if (grown.count(&op)) {
        shareOperands(op);
        simplifyBody(op, context);
      }
  }
  return changed;
}

} // namespace tenon
