// Defines the shrinking of modules (delta debugging): smaller modules that are still interesting.
#pragma once

#include "ir/IR.h"

#include "llvm/ADT/STLExtras.h"

#include <memory>

namespace tenon {

struct ShrinkStatistics {
  unsigned tried = 0, kept = 0;
};

/// Shrinks `module` as long as `interesting` holds of the result. Every candidate verifies. Steps:
/// outputs are dropped, operations are cut off (their results become inputs) or bypassed (by an
/// operand of the same type), what is unused disappears, constants become splats.
std::unique_ptr<Module> shrinkModule(const Module &module,
                                     llvm::function_ref<bool(Module &)> interesting,
                                     ShrinkStatistics &statistics);

/// Operations outside bodies of map and reduce.
unsigned countOperations(Module &module);

} // namespace tenon
