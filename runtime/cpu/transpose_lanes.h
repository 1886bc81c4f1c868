// Defines transpose_lanes: a square of elements in vectors, rows and columns exchanged.
#ifndef TENON_RUNTIME_CPU_TRANSPOSE_LANES_H
#define TENON_RUNTIME_CPU_TRANSPOSE_LANES_H

#include "cpu/unroll.h"

namespace tenon {
namespace cpu {
namespace detail {

/// Every other lane of those of a and b in turn, from lane First on.
template <int First, class V, int... I> TENON_FN V interleaved(indices<I...>, V a, V b) {
  constexpr int width = int(sizeof...(I));
#if defined(__clang__) || __GNUC__ >= 12
  return __builtin_shufflevector(a, b, (I % 2 != 0 ? width : 0) + First + I / 2 ...);
#else
  V to = a;
  for (int i = 0; i < width; ++i)
    to[i] = (i % 2 != 0 ? b : a)[First + i / 2];
  return to;
#endif
}

/// Lane j of vector i and lane i of vector j change places. A round halves the distance of those
/// that meet in the end.
template <int Width, class V> TENON_FN void transpose_lanes(V *rows) {
  for (int round = 1; round < Width; round *= 2) {
    V next[Width];
    unroll<Width / 2>([&](auto i) TENON_LAMBDA {
      next[2 * i] = interleaved<0>(indices_to<Width>{}, rows[i], rows[i + Width / 2]);
      next[2 * i + 1] = interleaved<Width / 2>(indices_to<Width>{}, rows[i], rows[i + Width / 2]);
    });
    unroll<Width>([&](auto i) TENON_LAMBDA { rows[i] = next[i]; });
  }
}

} // namespace detail
} // namespace cpu
} // namespace tenon

#endif
