// Defines when two tensors count as equal.
//
// Floats: the largest difference, relative to the largest finite expected value, is within the
// tolerance, and infinities and NaNs stand in the same places. 8-bit integers: no element differs
// by more than one step and at most 1 in 10,000 differs at all. Everything else: all equal.
//
// Networks that compute in types narrower than f32, or round activations, are held against an fp64
// evaluation instead. How far the interpreter in the model's types is from that is the network's
// own rounding, and twice as much is allowed where it exceeds the tolerance.
#pragma once

#include "ir/Tensor.h"

#include <string>

namespace tenon {

struct Difference {
  bool same = true;
  /// Floats: as above. Others: the share of elements that differ.
  double error = 0;
  /// The same of the interpreter in the model's types, where fp64 is expected; else negative.
  double rounding = -1;
  /// What is wrong, with the worst element; empty when the same.
  std::string reason;
};

Difference compareTensors(const Tensor &actual, const Tensor &expected, double tolerance);
/// `exact`: of a wide evaluation; `typed`: what the interpreter makes of the same in its types.
Difference compareWithExact(const Tensor &actual, const Tensor &typed, const Tensor &exact,
                            double tolerance);
/// How far `typed` is from `exact`, as an error that a comparison gives; 0 where they do not match
/// in shape.
double roundingError(const Tensor &typed, const Tensor &exact);
/// The error that so much rounding of `size` elements explains: twice as much, and more where few
/// elements tell how large it is.
double explainedBy(double rounding, int64_t size);

/// Smallest and largest finite value; false for an empty, non-numeric or non-finite tensor.
bool valueRange(const Tensor &tensor, double &low, double &high);
/// Elements of a float tensor that are infinite or NaN.
int64_t countNotFinite(const Tensor &tensor);
/// `[1, 3, 224, 224]`.
std::string shapeText(llvm::ArrayRef<int64_t> shape);

} // namespace tenon
