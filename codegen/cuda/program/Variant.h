// Defines `Variant`: one graph of a CUDA module, the first or an entry, written for one
// architecture, with its plan.
#pragma once

#include "codegen/core/Target.h"
#include "codegen/emit/Interface.h"
#include "codegen/emit/StepWriter.h"
#include "codegen/memory/Scheduled.h"
#include "codegen/memory/StepOrder.h"
#include "ir/Entries.h"

#include <array>
#include <memory>
#include <string>
#include <vector>

namespace tenon {

/// One graph of the module.
struct Variant {
  Variant(std::unique_ptr<ScheduledGraph> opened, const DimSpelling &dims, PlaceTable &table,
          bool lifetimes)
      : scheduled(std::move(opened)), graph(scheduled->graph), level(scheduled->level),
        plan(scheduled->plan), order(orderOf(plan)), names(stepNames(plan)),
        placeNames(graph, plan, names, table, name(), lifetimes), places(plan, dims, &placeNames) {}

  struct Row {
    std::string label, function;
    bool touchesIo;
    int branch;
  };
  const std::unique_ptr<ScheduledGraph> scheduled;
  Graph &graph;
  const TargetLevel &level;
  const Plan &plan;
  StepOrder order;
  const std::vector<std::string> names; // of the steps
  const PlaceNames placeNames;
  Places places;
  std::vector<Row> rows;
  bool capturable = false; // by the caller, though what is carried grows

  bool isFirst() const { return !isEntry(graph); }
  std::string name() const { return level.name.str() + (isFirst() ? "" : "_" + graph.name); }

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
