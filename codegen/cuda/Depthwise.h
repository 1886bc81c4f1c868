// Defines what the tactics of depthwise convolutions share (Depthwise.cpp, DepthwiseMma.cpp,
// ExpandDepthwise.cpp).
#pragma once

#include "codegen/cuda/Contraction.h"

namespace tenon::cuda {

/// Whether the group is a depthwise convolution that runtime/cuda/depthwise.cuh computes.
bool matchDepthwise(const TacticInput &in, std::string &why);

/// The weights' layout with the channels innermost: [kernel_h][kernel_w][channels * filters].
void packFilters(const GroupForm &form, llvm::SmallVectorImpl<Packing> &out);

/// Writes configuration, body and the call of `kernel` of the header of its name; `rest` is what
/// its Config has beside extents and schedule.
void emitDepthwise(const TacticInput &in, const Schedule &s, StepWriter &out,
                   llvm::StringRef kernel, llvm::function_ref<void(StepWriter::Config &)> rest);

} // namespace tenon::cuda
