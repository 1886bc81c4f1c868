// Implements the attribute `overlap`, and what of it came about in a plan.
#include "codegen/memory/Overlap.h"

namespace tenon {

llvm::Optional<int64_t> Overlap::distance(int64_t alignment) const {
  for (int64_t d = (bytes + alignment - 1) / alignment * alignment, end = d + step * alignment;
       d < end; d += alignment)
    if (permits(d))
      return d;
  return llvm::None;
}

void setOverlap(Operation &group, const Overlap &overlap) {
  group.set("overlap", Ints{int64_t(overlap.operand), overlap.bytes, overlap.step});
}

llvm::Optional<Overlap> overlapOf(const Operation &group) {
  const Ints &numbers = group.intsAttr("overlap");
  if (numbers.size() != 3 || numbers[0] < 0 || numbers[0] >= int64_t(group.numOperands()) ||
      numbers[2] < 1)
    return llvm::None;
  return Overlap{unsigned(numbers[0]), numbers[1], numbers[2]};
}

std::vector<Overlaid> overlaidResults(const Plan &plan) {
  std::vector<Overlaid> all;
  for (const Step &s : plan.steps)
    if (const auto overlap = overlapOf(*s.op)) {
      const unsigned y = plan[s.op->result(0)].buffer,
                     x = plan[s.op->operand(overlap->operand)].buffer;
      const BufferInfo &result = plan.buffers[y], &operand = plan.buffers[x];
      if (y != x && result.home == Home::Arena && operand.home == Home::Arena &&
          result.firstStep == s.number && operand.lastStep == s.number &&
          result.at < operand.at + operand.bytes && operand.at < result.at + result.bytes)
        all.push_back({&s, y, x, operand.at - result.at});
    }
  return all;
}

} // namespace tenon
