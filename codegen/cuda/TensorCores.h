// Defines how contractions are judged by the Tensor Cores of their machine.
#pragma once

#include "codegen/core/TargetFamily.h"

namespace tenon::cuda {

/// Looks at a group that has its schedule. `options` are those that it was chosen with.
TensorCoreVerdict judgeTensorCores(const TacticInput &in, const Schedule &chosen,
                                   const ScheduleOptions &options);

} // namespace tenon::cuda
