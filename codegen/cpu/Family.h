// Defines the family of cpu targets: C++ files: the processors of servers, desktops and boards.
#pragma once

#include "codegen/core/TargetFamily.h"

namespace tenon::cpu {

extern const TargetFamily kFamily;
llvm::ArrayRef<TargetLevel> levels(); // Levels.cpp
/// Those of Families.def, mcu's, too.
llvm::ArrayRef<const Tactic *> tactics();

} // namespace tenon::cpu
