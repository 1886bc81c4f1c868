// Defines what a zero point of x adds to a contraction's sums, so that kernels need not know of it:
//
//   Σ (x − z) · w = Σ x · w − z · Σ w
//
// Σ w goes over the taps that lie within x: where windows reach beyond its border the sums differ
// from place to place.
#pragma once

#include "ir/IR.h"
#include "ir/Tensor.h"

namespace tenon {

/// z · Σ w, in i32, for `op`, a conv or matmul whose second operand has the values `weights`:
/// [channels of the result], or [height][width][channels] where it differs from place to place.
/// None where extents are not known, where it has more than kMostOffsets elements, and where
/// kernels take a zero point at no cost: few channels a group, a single row.
llvm::Optional<Tensor> zeroPointOffsets(const Operation &op, const Tensor &weights, int64_t zero);

constexpr int64_t kMostOffsets = 1 << 18;

} // namespace tenon
