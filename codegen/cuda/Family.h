// Defines the family of cuda targets: CUDA files.
#pragma once

#include "codegen/core/TargetFamily.h"

namespace tenon::cuda {

extern const TargetFamily kFamily;
llvm::ArrayRef<TargetLevel> levels(); // Levels.cpp

} // namespace tenon::cuda
