// Defines what the tactics of windowed operations (conv, conv_transpose, pool) share.
#pragma once

#include "codegen/core/ConvProblem.h"
#include "codegen/emit/StepWriter.h"

namespace tenon::cpu {

/// Places of (n, c, [h,] w) among (n, c, h, w); those of a volume's dimensions are their own.
llvm::SmallVector<int, 6> planePlaces(const ConvProblem &p);

/// Writes batch, in, out, kernel, strides, dilations, pads and pads_end of a windowed operation of
/// any rank, as runtime/cpu/window_direct.h reads them.
void writeWindow(StepWriter::Config &cfg, const Operation &op, llvm::ArrayRef<int64_t> kernel);

} // namespace tenon::cpu
