// Defines what is known of addresses before the memory plan is final: where a value's memory will
// be depends on the graph alone, not on the schedules that are still being chosen.
#pragma once

#include "codegen/core/Target.h"
#include "codegen/memory/Plan.h"

#include <memory>

namespace tenon {

/// Of the caller's tensors, in bytes.
constexpr int64_t kPortAlignment = 16;
/// Whether programs of a graph see to it that tensors of fixed extents lie so: where all of their
/// sequences of steps know the same extents.
bool alignsPorts(const Graph &graph, const TargetLevel &level);
/// Whether byte `offset` of a value's base in the plan, without its `start`, is known to be a
/// multiple of `bytes`, at most 64.
bool isKnownAligned(const Plan &plan, const Value *value, int64_t offset, int64_t bytes);
/// Byte of element `offset` of a value in `place` from that base, `start` included, modulo `bytes`;
/// none where it depends on the dimensions, or lies within a byte.
llvm::Optional<int64_t> bytesBehind(const Placement &place, Dim offset, Element element,
                                    int64_t bytes);

class Alignment {
public:
  /// Plans the graph's memory when first asked.
  Alignment(Graph &graph, const TargetLevel &level) : graph_(&graph), level_(&level) {}
  /// The same where the caller's tensors may be anywhere.
  explicit Alignment(Graph &graph) : graph_(&graph) {}
  explicit Alignment(const Plan &plan) : plan_(&plan) {}

  /// Whether element `offset` of the value is known to start at a multiple of `bytes`, at most 64.
  bool isKnown(const Value *value, Dim offset, int64_t bytes) const;

private:
  Graph *graph_ = nullptr;
  const TargetLevel *level_ = nullptr;
  mutable std::unique_ptr<Plan> own_;
  mutable const Plan *plan_ = nullptr;
};

} // namespace tenon
