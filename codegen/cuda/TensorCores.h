// Defines what a scheduled contraction has to do with Tensor Cores: whether its kernel is for them,
// and if not, why not and what would change it.
#pragma once

#include "codegen/memory/Scheduled.h"
#include "codegen/schedule/Schedule.h"

namespace tenon::cuda {

struct TensorCoreVerdict {
  bool isContraction = false;
  /// The chosen tactic is for the machine's Tensor Cores.
  bool intended = false;
  /// The share of the machine's fp16 peak that its products may reach: bytes run at twice of it,
  /// tf32 at half, and tf32x3 takes three products for one.
  double rate = 1;
  /// What kept each tactic for Tensor Cores from being chosen: its id and the reason.
  std::vector<std::pair<std::string, std::string>> refusals;
  /// The reason that counts: of those that match the estimate, else the most general tactic's.
  std::string reason;
  /// Precision, shape or option that would bring it to Tensor Cores.
  std::string change;
};

/// Looks at the group of a choice. `options` are those that it was chosen with.
TensorCoreVerdict judgeTensorCores(const GroupQuery &in, const Choice &chosen,
                                   const ScheduleOptions &options);

} // namespace tenon::cuda
