// Implements what is known of addresses.
#include "codegen/memory/Alignment.h"

#include "codegen/core/TargetFamily.h"
#include "ir/Entries.h"

namespace tenon {

bool alignsPorts(const Graph &graph, const TargetLevel &level) {
  return level.family && level.family->facts.alignsPorts &&
         llvm::none_of(graph.module().graphs, [](const auto &g) { return isEntry(*g); });
}

bool isKnownAligned(const Plan &plan, const Value *value, int64_t offset, int64_t bytes) {
  auto it = plan.placements.find(value);
  if (it == plan.placements.end() || it->second.start)
    return false;
  const Placement &p = it->second;
  if (p.home == Home::Input || p.home == Home::Output) {
    // Whatever shares the tensor's memory has its extents, or a part of them.
    const auto isFixed = [](const Value *v) { return v->type().hasStaticShape(); };
    if (!plan.alignedPorts || bytes > kPortAlignment ||
        !llvm::all_of(plan.buffers[p.buffer].values, isFixed))
      return false;
  }
  // Buffers start at multiples of 64, wherever the plan puts them.
  return (p.offset + offset) % bytes == 0;
}

bool Alignment::isKnown(const Value *value, Dim offset, int64_t bytes) const {
  if (!plan_) {
    own_ = std::make_unique<Plan>(planMemory(*graph_));
    own_->alignedPorts = level_ && alignsPorts(*graph_, *level_);
    plan_ = own_.get();
  }
  if (offset && !offset.isConstant())
    return false;
  const int64_t elements = offset ? offset.constant() : 0;
  return isKnownAligned(*plan_, value, elements * bitWidth(value->type().element()) / 8, bytes);
}

} // namespace tenon
