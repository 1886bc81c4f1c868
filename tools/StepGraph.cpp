// Implements the search for the steps behind values.
#include "tools/StepGraph.h"

#include "llvm/ADT/SmallPtrSet.h"

#include <set>

namespace tenon {

StepGraph::StepGraph(Graph &graph, const Plan &plan) : graph_(graph) {
  for (const Step &s : plan.steps)
    steps_[s.op] = s.number;
}

std::vector<StepGraph::Origin> StepGraph::originsOf(const Value *v) const {
  std::vector<Origin> origins;
  llvm::SmallPtrSet<const Value *, 8> seen;
  llvm::SmallVector<const Value *, 8> open{v};
  while (!open.empty()) {
    const Value *next = open.pop_back_val();
    if (!seen.insert(next).second)
      continue;
    const Operation *maker = next->def();
    if (!maker) {
      if (next->argumentOf() == &graph_.body())
        origins.push_back({-1, next->index(), next->type()});
    } else if (auto it = steps_.find(maker); it != steps_.end()) {
      origins.push_back({it->second, 0, next->type()});
    } else {
      for (unsigned i = maker->numOperands(); i-- > 0;)
        open.push_back(maker->operand(i));
    }
  }
  return origins;
}

void StepGraph::write(llvm::json::OStream &json, llvm::StringRef key,
                      llvm::ArrayRef<Value *> values) const {
  std::set<std::pair<int, unsigned>> seen;
  json.attributeArray(key, [&] {
    for (const Value *v : values)
      for (const Origin &o : originsOf(v))
        if (seen.insert({o.step, o.input}).second)
          json.object([&] {
            if (o.step >= 0)
              json.attribute("step", o.step);
            else
              json.attribute("input", llvm::json::fixUTF8(graph_.inputNames[o.input]));
            json.attribute("type", toString(o.type));
          });
  });
}

} // namespace tenon
