// Defines the rounding of a contraction's weights to 16 bits that keeps their sums.
//
//   y[m] = Σk w[m,k] · x[k]        δ[m,k] = rounded w[m,k] − w[m,k]
//   E (Σk δ[k] x[k])² = v · (r · (Σk δ[k])² + Σk δ[k]²),  x[k] of variance v and mean² = r · v
//
// To nearest, only the second term is least. Behind a rectifier the mean is as large as the spread,
// and the errors of a row, which add up to about √K halves of a unit, shift the whole output: the
// same way in every pixel, so that no mean evens it out. A few weights that lie almost halfway
// between two numbers are enough to take that sum to zero. Each of the others is rounded to
// nearest, and every one to a neighbour.
#pragma once

#include "ir/IR.h"

namespace tenon {

/// r of a normal variable of mean 0 cut off below 0: (1 / 2π) / (1 / 2 − 1 / 2π).
constexpr double kRectifiedMean = 0.467;

/// Where the weights of one output stand in a constant: `outers` · `inners` rows of `length`
/// elements that lie `stride` apart; row (i, j) begins at i · outerStride + j.
struct WeightRows {
  int64_t outers = 0, outerStride = 0, inners = 1, length = 0, stride = 1;
};

/// The rows of operand 1 of a conv, conv_transpose or matmul; a tap of conv_transpose is a row of
/// its own, for it meets others only where windows overlap.
WeightRows weightRows(const Operation &contraction, llvm::ArrayRef<int64_t> shape);

/// `w` rounded to f16 or bf16 so that the error above is small for r = `mean`. Rows with an
/// element that is not finite after rounding are rounded to nearest.
Tensor roundedInRows(const Tensor &w, Element to, const WeightRows &rows, double mean);

} // namespace tenon
