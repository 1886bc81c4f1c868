// Implements what is known of addresses.
#include "codegen/memory/Alignment.h"

namespace tenon {

bool Alignment::isKnown(const Value *value, Dim offset, int64_t bytes) const {
  if (!plan_) {
    own_ = std::make_unique<Plan>(planMemory(*graph_));
    plan_ = own_.get();
  }
  auto it = plan_->placements.find(value);
  if (it == plan_->placements.end() || (offset && !offset.isConstant()))
    return false;
  const Placement &p = it->second;
  if (p.home == Home::Input || p.home == Home::Output || p.start)
    return false;
  const int64_t elements = offset ? offset.constant() : 0;
  // Buffers start at multiples of 64, wherever the plan puts them.
  return (p.offset + elements * bitWidth(value->type().element()) / 8) % bytes == 0;
}

} // namespace tenon
