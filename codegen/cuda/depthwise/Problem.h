// Defines what the tactics of depthwise convolutions share.
#pragma once

#include "codegen/core/TacticOf.h"
#include "codegen/cuda/shared/Contraction.h"

namespace tenon::cuda {

/// A depthwise convolution that runtime/cuda/depthwise/kernel.cuh computes.
struct DepthwiseProblem {
  GroupQuery in;
  ConvProblem conv;
  int64_t xZero; // of bytes

  bool sumsBytes() const { return !isFloat(in.form.anchor->operand(0)->type().element()); }
};
struct DepthwiseCosts {
  /// `depthwise`: how many operations of the machine's peak count for one of the group, for a load
  /// of a run and for each of its elements, which are widened one by one.
  double operation, load, element;
  /// `depthwise_mma_sm80`, microseconds: of all, of a block, of one whose windows lie within the
  /// image, and of each of a multiprocessor's first three.
  double start, block, loaded, first;
  /// How many times its estimate is counted where it competes, for estimates err.
  double caution;

  static constexpr llvm::StringLiteral family = "depthwise";
};
constexpr DepthwiseCosts kDepthwiseCosts = {
#include "codegen/cuda/depthwise/costs.inc"
};
Result<DepthwiseProblem> readDepthwise(const GroupQuery &in);

/// Writes configuration, body and the call of `kernel`; `members` are the schedule's, `rest` is
/// what else its Config has beside extents.
void emitDepthwise(const DepthwiseProblem &p, const KeyValues &members, StepWriter &out,
                   llvm::StringRef kernel, llvm::function_ref<void(StepWriter::Config &)> rest);

} // namespace tenon::cuda
