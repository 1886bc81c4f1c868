// Implements the pattern driver and the helpers that most patterns need.
#include "passes/Rewrite.h"

#include "ir/BornExtents.h"

namespace tenon {

bool Rewriter::replace(Operation &op, llvm::ArrayRef<Value *> values) {
  assert(values.size() == op.numResults());
  if (llvm::is_contained(values, nullptr))
    return false;
  for (unsigned i = 0; i < values.size(); ++i) {
    Value *from = op.result(i), *to = values[i];
    if (to->hint().empty())
      to->setHint(from->hint());
    if (Operation *def = to->def(); def && def->parent() == op.parent())
      mergeLocation(def->loc(), op.loc());
    from->replaceAllUsesWith(to);
  }
  return true;
}

bool isDead(const Operation &op) {
  if (op.isTerminator() || (op.info().traits & OpTrait::Effect))
    return false;
  for (unsigned i = 0; i < op.numResults(); ++i)
    if (op.result(i)->hasUses())
      return false;
  return !isMentioned(bornSymbols(op), op);
}

bool eraseDeadOps(Region &region) {
  bool changed = false;
  for (auto it = region.end(); it != region.begin();) {
    Operation &op = *--it;
    if (isDead(op)) {
      ++it;
      op.erase();
      changed = true;
    } else if (holdsStructured(op)) {
      for (unsigned r = 0; r < op.numRegions(); ++r)
        changed |= eraseDeadOps(op.region(r));
    }
  }
  return changed;
}

class PatternDriver {
public:
  PatternDriver(PassContext &context, llvm::ArrayRef<Pattern> patterns)
      : rewriter_(context), patterns_(patterns) {}

  bool sweep(Region &region) {
    bool changed = false;
    for (Operation &op : region.opsEarlyInc()) {
      if (!isStructured(op))
        continue;
      for (const Pattern &p : patterns_) {
        if (isDead(op))
          break; // rewritten away, or not worth the work
        rewriter_.id_ = p.id;
        changed |= p.apply(op, rewriter_);
      }
      if (holdsStructured(op))
        for (unsigned r = 0; r < op.numRegions(); ++r)
          changed |= sweep(op.region(r));
    }
    return changed;
  }

private:
  Rewriter rewriter_;
  llvm::ArrayRef<Pattern> patterns_;
};

bool applyPatterns(Graph &graph, PassContext &context, llvm::ArrayRef<Pattern> patterns) {
  PatternDriver driver(context, patterns);
  // Every pattern lowers a measure (operations, operands, elements moved), so this ends; the
  // bound only guards against a defect.
  bool any = false;
  for (int round = 0; round < 1000; ++round) {
    if (!driver.sweep(graph.body()))
      return any;
    any = true;
    eraseDeadOps(graph.body());
  }
  context.diagnostics.error("patterns of graph '" + graph.name + "' do not come to rest");
  return any;
}

} // namespace tenon
