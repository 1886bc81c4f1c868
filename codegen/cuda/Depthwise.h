// Defines what the tactics of depthwise convolutions share (Depthwise.cpp, DepthwiseMma.cpp).
#pragma once

#include "codegen/cuda/Contraction.h"

namespace tenon::cuda {

/// Whether the group is a depthwise convolution that runtime/cuda/depthwise.cuh computes.
bool matchDepthwise(const TacticInput &in, std::string &why);

/// The extents of a window kernel's Config, and what the schedule says.
void writeDepthwise(const ConvProblem &p, const Schedule &s, StepWriter::Config &cfg);

} // namespace tenon::cuda
