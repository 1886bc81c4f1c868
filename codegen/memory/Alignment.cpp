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
  if (it == plan.placements.end())
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

llvm::Optional<int64_t> bytesBehind(const Placement &place, Dim offset, Element element,
                                    int64_t bytes) {
  if (place.start)
    offset = offset ? offset + place.start : place.start;
  if (!offset)
    return 0;
  const unsigned bits = bitWidth(element);
  if (bits >= 8)
    return mod(offset * int64_t(bits / 8), offset.node()->context->dim(bytes)).asConstant();
  if (!offset.isConstant() || offset.constant() * bits % 8)
    return llvm::None;
  return offset.constant() * bits / 8 % bytes;
}

bool Alignment::isKnown(const Value *value, Dim offset, int64_t bytes) const {
  if (!plan_) {
    own_ = std::make_unique<Plan>(planMemory(*graph_));
    own_->alignedPorts = level_ && alignsPorts(*graph_, *level_);
    plan_ = own_.get();
  }
  const auto it = plan_->placements.find(value);
  if (it == plan_->placements.end())
    return false;
  const auto behind = bytesBehind(it->second, offset, value->type().element(), bytes);
  return behind && isKnownAligned(*plan_, value, *behind, bytes);
}

} // namespace tenon
