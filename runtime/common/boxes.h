// Defines box, an area of an image between two corners, and overlap, intersection over union.
#ifndef TENON_RUNTIME_COMMON_BOXES_H
#define TENON_RUNTIME_COMMON_BOXES_H

#include "common/base.h"

namespace tenon {

/// A box as its lower and upper corner.
struct box {
  float low[2], high[2];

  /// From two opposite corners (y, x, y, x), or with Center from center and size (x, y, width,
  /// height).
  template <bool Center> TENON_FN static box of(const float (&v)[4]) {
    box r;
    for (int d = 0; d < 2; ++d) {
      const float first = Center ? v[1 - d] - v[3 - d] / 2 : v[d];
      const float second = Center ? v[1 - d] + v[3 - d] / 2 : v[d + 2];
      r.low[d] = second < first ? second : first;
      r.high[d] = first < second ? second : first;
    }
    return r;
  }
  TENON_FN float area() const { return (high[0] - low[0]) * (high[1] - low[1]); }
};

/// Intersection over union.
TENON_FN float overlap(const box &a, const box &b) {
  float shared = 1;
  for (int d = 0; d < 2; ++d) {
    const float low = a.low[d] < b.low[d] ? b.low[d] : a.low[d];
    const float high = b.high[d] < a.high[d] ? b.high[d] : a.high[d];
    shared *= low < high ? high - low : 0.0f;
  }
  return shared > 0 ? shared / (a.area() + b.area() - shared) : 0.0f;
}

} // namespace tenon

#endif
