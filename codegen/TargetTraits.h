// Defines what passes must know of a target.
#pragma once

#include "codegen/Target.h"
#include "passes/Pass.h"

namespace tenon {

TargetTraits traitsOf(const Target &target);

} // namespace tenon
