// Implements the shrinking of modules. A candidate is a clone with one edit; edits are named by
// position, which clones share.
#include "tools/ModuleShrinker.h"

#include "ir/Verifier.h"

namespace tenon {
namespace {

/// Erases operations without uses, from the end; then inputs without uses.
void sweep(Graph &graph) {
  Region &body = graph.body();
  for (auto it = body.end(); it != body.begin();) {
    Operation &op = *--it;
    if (op.isTerminator() || llvm::any_of(op.results(), [](Value *v) { return v->hasUses(); }))
      continue;
    ++it;
    op.erase();
  }
  for (unsigned i = body.numArguments(); i-- > 0;)
    if (!body.argument(i)->hasUses() && graph.states.empty() && body.numArguments() > 1) {
      body.eraseArgument(i);
      graph.inputNames.erase(graph.inputNames.begin() + i);
    }
}

std::vector<Operation *> operations(Graph &graph) {
  std::vector<Operation *> ops;
  for (Operation &op : graph.body())
    if (!op.isTerminator())
      ops.push_back(&op);
  return ops;
}

/// Keeps outputs [first, first + count) only, or all others when `drop`.
bool dropOutputs(Graph &graph, size_t first, size_t count) {
  Operation *end = graph.returnOp();
  if (!graph.states.empty() || count >= end->numOperands() || first >= end->numOperands())
    return false;
  llvm::SmallVector<Value *, 4> kept;
  std::vector<std::string> names;
  for (size_t i = 0; i < end->numOperands(); ++i)
    if (i < first || i >= first + count) {
      kept.push_back(end->operand(unsigned(i)));
      names.push_back(graph.outputNames[i]);
    }
  end->setOperands(kept);
  graph.outputNames = names;
  return true;
}

/// Results of the operation become inputs of the graph.
bool cutOff(Graph &graph, Operation &op) {
  if (op.is(Op::Constant))
    return false;
  for (Value *v : op.results()) {
    if (!v->hasUses())
      continue;
    Value *input = graph.body().addArgument(v->type(), v->hint());
    graph.inputNames.push_back("cut" + std::to_string(graph.inputNames.size()));
    v->replaceAllUsesWith(input);
  }
  return true;
}

/// Uses of the result read an operand of the same type instead.
bool bypass(Operation &op) {
  if (op.numResults() != 1)
    return false;
  for (Value *v : op.operands())
    if (v->type() == op.result()->type()) {
      op.result()->replaceAllUsesWith(v);
      return true;
    }
  return false;
}

/// The last operation's results alone become the outputs.
bool endAt(Graph &graph, Operation &op) {
  if (!graph.states.empty() || op.is(Op::Constant))
    return false;
  Operation *end = graph.returnOp();
  if (end->operands() == llvm::to_vector<4>(op.results()))
    return false;
  end->setOperands(op.results());
  graph.outputNames.clear();
  for (unsigned i = 0; i < op.numResults(); ++i)
    graph.outputNames.push_back("end" + std::to_string(i));
  return true;
}

bool splat(Operation &op) {
  const Attribute *a = op.is(Op::Constant) ? op.find("value") : nullptr;
  const Literal *l = a ? a->get<Literal>() : nullptr;
  if (!l || (*l)->element() == Element::String || (*l)->size() <= 1 || (*l)->isSplat())
    return false;
  op.set("value", Literal(std::make_shared<const Tensor>((*l)->element(), (*l)->shape())));
  return true;
}

class Reducer {
public:
  Reducer(const Module &module, llvm::function_ref<bool(Module &)> interesting,
          ShrinkStatistics &statistics)
      : best_(module.clone()), interesting_(interesting), statistics_(statistics) {}

  std::unique_ptr<Module> run() {
    bool progress = true;
    while (progress) {
      progress = false;
      progress |= everyOperation([](Graph &g, Operation &op) { return endAt(g, op); });
      progress |= outputs();
      progress |= chunks();
      progress |= everyOperation([](Graph &g, Operation &op) { return cutOff(g, op); });
      progress |= everyOperation([](Graph &, Operation &op) { return bypass(op); });
      progress |= everyOperation([](Graph &, Operation &op) { return splat(op); });
    }
    return std::move(best_);
  }

private:
  /// Takes the edited clone when it is still interesting.
  bool attempt(llvm::function_ref<bool(Graph &)> edit) {
    std::unique_ptr<Module> candidate = best_->clone();
    if (!edit(candidate->graph()))
      return false;
    sweep(candidate->graph());
    Diagnostics ignored;
    if (!verify(*candidate, ignored))
      return false;
    ++statistics_.tried;
    if (!interesting_(*candidate))
      return false;
    ++statistics_.kept;
    best_ = std::move(candidate);
    return true;
  }

  bool everyOperation(llvm::function_ref<bool(Graph &, Operation &)> edit) {
    bool any = false;
    for (size_t i = 0; i < operations(best_->graph()).size();) {
      const size_t before = operations(best_->graph()).size();
      const bool kept = attempt([&](Graph &g) { return edit(g, *operations(g)[i]); });
      any |= kept;
      // After a success the same position holds another operation, unless nothing went away.
      if (!kept || operations(best_->graph()).size() == before)
        ++i;
    }
    return any;
  }

  bool outputs() {
    bool any = false;
    for (size_t count = best_->graph().outputNames.size() / 2; count > 0; count /= 2)
      for (size_t i = 0; i < best_->graph().outputNames.size();)
        if (attempt([&](Graph &g) { return dropOutputs(g, i, count); }))
          any = true;
        else
          i += count;
    return any;
  }

  /// Cuts off whole runs of operations at once, halving their length.
  bool chunks() {
    bool any = false;
    for (size_t count = operations(best_->graph()).size() / 2; count > 1; count /= 2)
      for (size_t i = 0; i < operations(best_->graph()).size();) {
        const bool kept = attempt([&](Graph &g) {
          const std::vector<Operation *> ops = operations(g);
          bool changed = false;
          for (size_t k = i; k < std::min(i + count, ops.size()); ++k)
            changed |= cutOff(g, *ops[k]);
          return changed;
        });
        any |= kept;
        if (!kept)
          i += count;
      }
    return any;
  }

  std::unique_ptr<Module> best_;
  llvm::function_ref<bool(Module &)> interesting_;
  ShrinkStatistics &statistics_;
};

} // namespace

std::unique_ptr<Module> shrinkModule(const Module &module,
                                     llvm::function_ref<bool(Module &)> interesting,
                                     ShrinkStatistics &statistics) {
  return Reducer(module, interesting, statistics).run();
}

unsigned countOperations(Module &module) {
  unsigned n = 0;
  for (auto &g : module.graphs)
    n += unsigned(operations(*g).size());
  return n;
}

} // namespace tenon
