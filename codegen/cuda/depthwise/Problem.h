// Defines what the tactics of depthwise convolutions share.
#pragma once

#include "codegen/cuda/shared/Contraction.h"

namespace tenon::cuda {

/// A depthwise convolution that runtime/cuda/depthwise/kernel.cuh computes.
struct DepthwiseProblem {
  GroupQuery in;
  ConvProblem conv;
  int64_t xZero; // of bytes

  bool sumsBytes() const { return !isFloat(in.form.anchor->operand(0)->type().element()); }
};
Result<DepthwiseProblem> readDepthwise(const GroupQuery &in);

/// Writes configuration, body and the call of `kernel`; `members` are the schedule's, `rest` is
/// what else its Config has beside extents.
void emitDepthwise(const DepthwiseProblem &p, const KeyValues &members, StepWriter &out,
                   llvm::StringRef kernel, llvm::function_ref<void(StepWriter::Config &)> rest);

} // namespace tenon::cuda
