// Defines the family of mcu targets: firmware sources, which are C++ without a heap or a library.
#pragma once

#include "codegen/core/TargetFamily.h"

namespace tenon::mcu {

extern const TargetFamily kFamily;
llvm::ArrayRef<TargetLevel> levels(); // Levels.cpp

} // namespace tenon::mcu
