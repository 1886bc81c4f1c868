// Defines `Variant`: one graph of a CUDA module, written for one architecture, with its plan.
#pragma once

#include "codegen/core/Target.h"
#include "codegen/emit/StepWriter.h"
#include "codegen/memory/Plan.h"
#include "codegen/memory/StepOrder.h"

#include <array>
#include <memory>
#include <string>
#include <vector>

namespace tenon {

/// One graph of the module.
struct Variant {
  Variant(Graph &graph, const TargetLevel &level)
      : graph(graph), level(level), plan(planMemory(graph)), order(orderOf(plan)), places(nullptr) {
  }

  struct Row {
    std::string label, function;
    bool touchesIo;
    int branch;
  };
  Graph &graph;
  const TargetLevel &level;
  Plan plan;
  StepOrder order;
  std::unique_ptr<Places> places;
  std::vector<Row> rows;

  std::string name() const { return level.name.str(); }

  /// What waits for what across branches, from the start (-1) to the end or to what is carried
  /// over then.
  std::vector<StepOrder::Edge> edges() const {
    std::vector<StepOrder::Edge> all;
    if (order.isChain())
      return all;
    all = order.edges().vec();
    std::array<bool, kMaxBranches> begun{};
    for (int s = 0; s < order.size(); ++s) {
      bool &mine = begun[size_t(order.branch(s))];
      if (order.branch(s) != 0 && !mine &&
          llvm::none_of(order.edges(), [&](const StepOrder::Edge &e) { return e.to == s; }))
        all.push_back({-1, s});
      mine = true;
    }
    const auto joins = order.joins();
    all.insert(all.end(), joins.begin(), joins.end());
    llvm::stable_sort(
        all, [](const StepOrder::Edge &a, const StepOrder::Edge &b) { return a.to < b.to; });
    return all;
  }
};

} // namespace tenon
