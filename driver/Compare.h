// Defines when two tensors count as equal.
//
// Floats: the largest difference, relative to the largest finite expected value, is within the
// tolerance, and infinities and NaNs stand in the same places. 8-bit integers: no element differs
// by more than one step and at most 1 in 10,000 differs at all. Everything else: all equal.
#pragma once

#include "ir/Tensor.h"

#include <string>

namespace tenon {

struct Difference {
  bool same = true;
  /// Floats: as above. Others: the share of elements that differ.
  double error = 0;
  /// What is wrong, with the worst element; empty when the same.
  std::string reason;
};

Difference compareTensors(const Tensor &actual, const Tensor &expected, double tolerance);

/// Smallest and largest finite value; false for an empty, non-numeric or non-finite tensor.
bool valueRange(const Tensor &tensor, double &low, double &high);
/// Elements of a float tensor that are infinite or NaN.
int64_t countNotFinite(const Tensor &tensor);
/// `[1, 3, 224, 224]`.
std::string shapeText(llvm::ArrayRef<int64_t> shape);

} // namespace tenon
