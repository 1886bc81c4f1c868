// Declares resampling along dimensions whose extents or scales are known only at run time. Where
// they are known when compiling, the IR's resize says the same.
#pragma once

#include "frontend/onnx/Common.h"

namespace tenon::frontend {

/// How elements are read between each other; the words are those of the IR's resize.
struct Resampling {
  std::string mode, coordinates, nearest;
  double cubicA = -0.75;
  bool excludeOutside = false;
  double extrapolation = 0;
  bool antialias = false; // shrinking stretches the filter
};

/// A number that is known when compiling, or a value of rank 0, which may be the quotient of two
/// extents.
struct Number {
  double known = 0;
  Value *atRunTime = nullptr;
  Dim numerator = {}, denominator = {};
};

/// A dimension that changes.
struct ResampledAxis {
  unsigned axis;
  Dim out;
  Value *extent;          // `out` as an i64 of rank 0
  Value *scale = nullptr; // of rank 0; null: the quotient of the extents
  /// The region that a crop takes, in parts of the extent.
  Number start{0}, end{1};
};

/// `x` with `axes` resampled, the last one first; null after an error.
Value *resample(Builder &b, Value *x, llvm::ArrayRef<ResampledAxis> axes, const Resampling &how);

} // namespace tenon::frontend
