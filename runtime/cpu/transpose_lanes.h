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

#if TENON_SIMD_WIDTH > 1 && defined(__AVX2__)
/// Eight vectors of words by half as many shuffles as rounds take: these stay within halves of a
/// vector, which are put together as they come.
template <class V> TENON_FN void transpose_words(V *rows) {
  __m256 pairs[8], quads[8];
  unroll<4>([&](auto i) TENON_LAMBDA {
    const __m256 a = (__m256)rows[2 * i], b = (__m256)rows[2 * i + 1];
    pairs[2 * i] = _mm256_unpacklo_ps(a, b);
    pairs[2 * i + 1] = _mm256_unpackhi_ps(a, b);
  });
  // Column c of four rows at quads[c], and c + 4 in its upper half.
  unroll<2>([&](auto h) TENON_LAMBDA {
    unroll<2>([&](auto i) TENON_LAMBDA {
      const __m256 a = pairs[4 * h + i], b = pairs[4 * h + i + 2];
      quads[4 * h + 2 * i] = _mm256_shuffle_ps(a, b, 0x44);
      quads[4 * h + 2 * i + 1] = _mm256_shuffle_ps(a, b, 0xee);
    });
  });
  unroll<4>([&](auto i) TENON_LAMBDA {
    rows[i] = (V)_mm256_permute2f128_ps(quads[i], quads[i + 4], 0x20);
    rows[i + 4] = (V)_mm256_permute2f128_ps(quads[i], quads[i + 4], 0x31);
  });
}
#endif

/// Lane j of vector i and lane i of vector j change places. A round halves the distance of those
/// that meet in the end.
template <int Width, class V> TENON_FN void transpose_lanes(V *rows) {
#if TENON_SIMD_WIDTH > 1 && defined(__AVX2__)
  if constexpr (Width == 8 && sizeof(V) == 32)
    return transpose_words(rows);
#endif
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
