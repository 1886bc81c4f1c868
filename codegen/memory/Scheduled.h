// Defines ScheduledGraph: a graph whose groups have their schedules, as reports and writers see it.
// Each group is read once, here; what is asked afterwards is asked of its choice.
#pragma once

#include "codegen/core/Tactic.h"
#include "codegen/memory/Alignment.h"
#include "codegen/memory/WeightImage.h"

namespace tenon {

struct ScheduledGroup {
  const GroupForm form;
  std::unique_ptr<const Choice> choice; // of the form, which it must not outlive
};

struct ScheduledGraph {
  ScheduledGraph(Graph &graph, const TargetLevel &level)
      : graph(graph), level(level), plan(planMemory(graph)), alignment(plan) {
    plan.alignedPorts = alignsPorts(graph, level);
  }
  ScheduledGraph(const ScheduledGraph &) = delete;
  ScheduledGraph &operator=(const ScheduledGraph &) = delete;

  Graph &graph;
  const TargetLevel &level;
  Plan plan;
  const Alignment alignment; // of the plan
  /// By step; null where it is control flow.
  std::vector<std::unique_ptr<const ScheduledGroup>> groups;

  GroupQuery query(const ScheduledGroup &group) const { return {group.form, level, &alignment}; }
  /// Null for control flow.
  const Choice *choice(const Step &step) const {
    const ScheduledGroup *group = groups[size_t(step.number)].get();
    return group ? group->choice.get() : nullptr;
  }
};

/// Plans the memory of a variant and makes the choice that each group's schedule names. Null where
/// a group has none, or one that does not fit it: all such groups are reported.
std::unique_ptr<ScheduledGraph> openScheduled(Graph &graph, const TargetLevel &level,
                                              Diagnostics &diagnostics);

/// The same for all graphs of a scheduled module, of so many levels, in their order. Their
/// constants move into `weights`, which has each content once, and what entries carry lies where
/// the first graph has it. Empty after an error.
std::vector<std::unique_ptr<ScheduledGraph>>
openAllScheduled(Module &module, llvm::ArrayRef<const TargetLevel *> levels, WeightImage &weights,
                 Diagnostics &diagnostics);

} // namespace tenon
