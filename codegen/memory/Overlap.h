// Defines which results may lie over an operand that dies: what the order of a kernel's reads and
// writes permits, and how the memory plan is told.
//
// Where a kernel has read the first rows of its operand before it writes the first ones of its
// result, the result may begin a little before the operand and run over it, always behind the
// reads. So both take little more than the larger one.
#pragma once

#include "codegen/core/Tactic.h"
#include "codegen/memory/Plan.h"

namespace tenon {

/// The attribute `overlap` of groups, which scheduling sets and the plan reads.
void setOverlap(Operation &group, const Overlap &overlap);
llvm::Optional<Overlap> overlapOf(const Operation &group);

/// A result that lies over an operand in a plan.
struct Overlaid {
  const Step *step;
  unsigned result, operand; // buffers
  int64_t distance;         // of their beginnings
};
std::vector<Overlaid> overlaidResults(const Plan &plan);

} // namespace tenon
