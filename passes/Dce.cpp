// dce: removes operations, results and captured operands without uses.
//
//   %a, %b = map %x { … yield %r, %s }        %a = map %x { … yield %r }
//   %c = relu %x                         →    return %a
//   return %a
//
// Graph inputs stay: they are the model's interface.
#include "passes/Dce.h"

#include "ir/BornExtents.h"
#include "passes/Maps.h"
#include "passes/Rewrite.h"

namespace tenon {
namespace {

void removeYield(Region &region, unsigned i) {
  Operation *end = region.terminator();
  auto operands = end->operands();
  operands.erase(operands.begin() + i);
  end->setOperands(operands);
}

bool sweep(Region &region, PassContext &context);

// Results of maps and groups that nobody reads
bool dropResults(Operation &op, PassContext &context) {
  bool changed = false;
  if (!op.isAny(Op::Map, Op::Group))
    return false;
  for (unsigned r = op.numResults(); r-- > 0;) {
    if (op.numResults() == 1 || op.result(r)->hasUses() || !context.fire("dce.dead-result", op))
      continue;
    removeYield(op.region(), r);
    op.eraseResult(r);
    changed = true;
  }
  return changed;
}

/// Whether others go by an extent that is born in result `r` of an if.
bool givesExtents(const Operation &op, unsigned r) {
  llvm::SmallVector<Dim, 2> symbols;
  for (const BornExtent &b : bornExtents(op))
    if (llvm::is_contained(op.result(r)->type().shape(), b.symbol))
      symbols.push_back(b.symbol);
  return isMentioned(symbols, op);
}

// Results of if and loop-free control flow: both branches stop yielding them
bool dropIfResults(Operation &op, PassContext &context) {
  bool changed = false;
  if (!op.is(Op::If))
    return false;
  for (unsigned r = op.numResults(); r-- > 0;) {
    if (op.numResults() == 1 || op.result(r)->hasUses() || givesExtents(op, r) ||
        !context.fire("dce.dead-result", op))
      continue;
    eraseIfResult(op, r);
    changed = true;
  }
  return changed;
}

// Operands of groups (and captures of if) whose arguments nobody reads
bool dropOperands(Operation &op, PassContext &context) {
  bool changed = false;
  if (!op.isAny(Op::Group, Op::If))
    return false;
  const unsigned first = op.is(Op::If) ? 1 : 0; // the condition has no argument
  for (unsigned i = op.numOperands(); i-- > first;) {
    bool used = false;
    for (unsigned r = 0; r < op.numRegions(); ++r)
      used |= op.region(r).argument(i - first)->hasUses();
    if (used || !context.fire("dce.dead-operand", op))
      continue;
    auto operands = op.operands();
    operands.erase(operands.begin() + i);
    for (unsigned r = 0; r < op.numRegions(); ++r)
      op.region(r).eraseArgument(i - first);
    op.setOperands(operands);
    changed = true;
  }
  return changed;
}

bool sweep(Region &region, PassContext &context) {
  bool changed = false;
  for (auto it = region.end(); it != region.begin();) {
    Operation &op = *--it;
    if (isDead(op) && context.fire("dce.dead-op", op)) {
      ++it;
      op.erase();
      changed = true;
      continue;
    }
    changed |= dropResults(op, context);
    changed |= dropIfResults(op, context);
    for (unsigned r = 0; r < op.numRegions(); ++r)
      changed |= sweep(op.region(r), context);
    changed |= dropOperands(op, context);
  }
  return changed;
}

} // namespace

bool runDce(Graph &graph, PassContext &context) {
  bool changed = false;
  while (sweep(graph.body(), context))
    changed = true;
  return changed;
}

} // namespace tenon
