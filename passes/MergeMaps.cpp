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
  llvm::SmallVector<Value *, 8> operands;
  IntLists maps;
  auto take = [&](Operation &op) {
    for (unsigned i = 0; i < op.numOperands(); ++i)
      if (op.operand(i)->def() != &first) {
        operands.push_back(op.operand(i));
        maps.push_back(indexMap(op, i));
      }
  };
  take(first);
  take(second);
  IterationSpace space = iterationSpace(second);
  llvm::SmallVector<int64_t, 6> dims;
  for (unsigned d = 0; d < space.size(); ++d)
    dims.push_back(d);

  Builder b(&second, context.diagnostics);
  b.location = first.loc();
  mergeLocation(b.location, second.loc());
  Operation *merged =
      b.map(operands, maps, space, [&](Builder &inner, llvm::ArrayRef<Value *> args) {
        std::map<const Value *, Value *> values;
        unsigned next = 0;
        for (unsigned i = 0; i < first.numOperands(); ++i)
          values[first.region().argument(i)] = args[next++];
        inlineBody(first.region(), inner, values, dims);
        llvm::SmallVector<Value *, 2> yields;
        auto inlined = [&](Value *v) { return values.count(v) ? values[v] : v; };
        for (Value *v : first.region().terminator()->operands())
          yields.push_back(inlined(v));
        for (unsigned i = 0; i < second.numOperands(); ++i) {
          Value *v = second.operand(i);
          values[second.region().argument(i)] =
              v->def() == &first ? yields[v->index()] : args[next++];
        }
        inlineBody(second.region(), inner, values, dims);
        for (Value *v : second.region().terminator()->operands())
          yields.push_back(inlined(v));
        return yields;
      });
  if (!merged)
    return nullptr;
  unsigned r = 0;
  for (Operation *from : {&first, &second})
    for (Value *v : from->results()) {
      Value *to = merged->result(r++);
      to->setType(v->type()); // layouts stay
      to->setHint(v->hint());
      v->replaceAllUsesWith(to);
    }
  second.erase();
  first.erase();
  for (unsigned i = merged->numResults(); i-- > 0;) {
    if (merged->result(i)->hasUses() || merged->numResults() == 1)
      continue;
    Operation *end = merged->region().terminator();
    auto yields = end->operands();
    yields.erase(yields.begin() + i);
    end->setOperands(yields);
    merged->eraseResult(i);
  }
  return merged;
}

/// One argument for operands that are read alike.
void shareOperands(Operation &map) {
  for (unsigned i = 0; i < map.numOperands(); ++i)
    for (unsigned k = map.numOperands(); --k > i;)
      if (map.operand(i) == map.operand(k) && indexMap(map, i) == indexMap(map, k)) {
        elementArgument(map, k)->replaceAllUsesWith(elementArgument(map, i));
        dropMapOperand(map, k);
      }
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
