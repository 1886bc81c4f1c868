// Defines what passes ask of the tactic `expand_depthwise_sm80` (Tactic.cpp).
#pragma once

#include "codegen/core/ConvProblem.h"
#include "codegen/core/Target.h"

namespace tenon::cuda {

/// Whether expand_depthwise_sm80 runs a convolution and a depthwise one of what it makes, as far as
/// their shapes go, and gains by it.
Result<> takesDepthwise(const ConvProblem &conv, const ConvProblem &depthwise,
                        const TargetLevel &level);

} // namespace tenon::cuda
