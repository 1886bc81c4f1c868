// Defines which elements a resize reads along one dimension, and with what weights: what the
// interpreter computes with, and what targets put into tables.
#pragma once

#include "ir/IR.h"

#include <cstdint>
#include <vector>

namespace tenon {

/// One dimension of a resize.
struct ResizeAxis {
  int64_t in, out;
  double scale, roiStart = 0, roiEnd = 1;
  llvm::StringRef coordinates;

  /// Every element is copied to its own place.
  bool isIdentity() const { return in == out && scale == 1 && coordinates != "tf_crop_and_resize"; }
  /// True where tf_crop_and_resize reads nothing of x.
  bool isOutside(int64_t i) const;
  /// Position read by output index i. T is f32 where the choice of an element hangs on it.
  template <class T> T position(int64_t i) const;
  int64_t clamp(double p) const { return !(p > 0) ? 0 : p >= double(in - 1) ? in - 1 : int64_t(p); }
};

/// Dimension `d` of a resize whose extents are `in` and `out`.
ResizeAxis resizeAxis(const Operation &op, unsigned d, int64_t in, int64_t out);

/// Elements and weights that an output index adds up.
struct ResizeTaps {
  std::vector<int64_t> index;
  std::vector<double> weight;
};

/// What output index i reads, by the op's mode; one tap of weight 1 for `nearest`.
ResizeTaps resizeTaps(const Operation &op, const ResizeAxis &axis, int64_t i);

} // namespace tenon
