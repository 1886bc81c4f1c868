// Defines what is known of addresses before the memory plan is final: where a value's memory will
// be depends on the graph alone, not on the schedules that are still being chosen.
#pragma once

#include "codegen/memory/Plan.h"

#include <memory>

namespace tenon {

class Alignment {
public:
  /// Plans the graph's memory when first asked.
  explicit Alignment(Graph &graph) : graph_(&graph) {}
  explicit Alignment(const Plan &plan) : plan_(&plan) {}

  /// Whether element `offset` of the value is known to start at a multiple of `bytes`, at most 64.
  /// The caller's memory may be anywhere.
  bool isKnown(const Value *value, Dim offset, int64_t bytes) const;

private:
  Graph *graph_ = nullptr;
  mutable std::unique_ptr<Plan> own_;
  mutable const Plan *plan_ = nullptr;
};

} // namespace tenon
