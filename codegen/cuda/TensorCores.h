// Defines how contractions are judged by the Tensor Cores of their machine.
#pragma once

#include "codegen/core/TargetFamily.h"

namespace tenon::cuda {

/// Looks at the group of a choice. `options` are those that it was chosen with.
TensorCoreVerdict judgeTensorCores(const GroupQuery &in, const Choice &chosen,
                                   const ScheduleOptions &options);

} // namespace tenon::cuda
