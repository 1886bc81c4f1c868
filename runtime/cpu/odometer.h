// Defines odometer<N>: a point in an N-dimensional iteration space, last dimension fastest. A
// worker starts at any linear position (one division per dimension) and then only counts.
#ifndef TENON_RUNTIME_CPU_ODOMETER_H
#define TENON_RUNTIME_CPU_ODOMETER_H

#include "common/base.h"

namespace tenon {
namespace cpu {

template <int N> struct odometer {
  index_t at[N > 0 ? N : 1] = {};
  index_t extents[N > 0 ? N : 1] = {};

  /// Moves to the point with linear position `position`.
  TENON_FN void seek(index_t position) {
    for (int d = N - 1; d >= 0; --d) {
      at[d] = position % extents[d];
      position /= extents[d];
    }
  }
  TENON_FN void step() {
    for (int d = N - 1; d >= 0; --d) {
      if (++at[d] < extents[d])
        return;
      at[d] = 0;
    }
  }
  TENON_FN index_t size() const {
    index_t n = 1;
    for (int d = 0; d < N; ++d)
      n *= extents[d];
    return n;
  }
};

} // namespace cpu
} // namespace tenon

#endif
