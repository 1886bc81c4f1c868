// Defines the two parts of 11 bits of significand that tf32x3 makes of a float: big + small is the
// float to within one unit of its last place. Tensor Cores read floats as tf32, without the low 13
// bits.
#ifndef TENON_RUNTIME_CUDA_TILE_TF32_CUH
#define TENON_RUNTIME_CUDA_TILE_TF32_CUH

#include "common/mul_add.h"
#include "cuda/device.cuh"

namespace tenon {
namespace cuda {

/// Rounded to tf32: half a unit of the last place that is read; ties go away from zero.
TENON_FN unsigned rounded_to_tf32(unsigned bits) { return bits + 0x1000u; }

struct tf32_pair {
  unsigned big, small; // as floats

  /// The difference is exact and has 12 bits: the one that is not read of it is as much as rounding
  /// would lose.
  TENON_DEVICE explicit tf32_pair(unsigned bits)
      : big(rounded_to_tf32(bits) & 0xffffe000u),
        small(tenon::detail::bitcast<unsigned>(tenon::detail::bitcast<float>(bits) -
                                               tenon::detail::bitcast<float>(big))) {}
};

/// The sum of products of Chain elements along K as Tensor Cores give it, with what they cut off on
/// the average: left out, it would make all sums smaller by a part of 5e-8 to 1.2e-7, layer after
/// layer. The shares are those that suit a model of the instruction (products added exactly down to
/// two bits below a float's last place of the largest, then cut), over random operands of both
/// signs and of one; its errors agree with those measured on an H200.
template <int Chain> TENON_DEVICE float with_lost_part(float sum) {
  static_assert(Chain <= 32, "longer chains lose more");
  return mul_add(sum, Chain <= 16 ? 4.8e-8f : 8e-8f, sum);
}

/// Splits a tile of Bytes in shared memory: the big parts stay in its place, the small ones follow
/// after the tile. By Threads threads, of which this is number `rank`.
template <int Bytes, int Threads> TENON_DEVICE void split_tile(unsigned char *tile, int rank) {
  constexpr int runs = Bytes / 16, passes = ceil_div(runs, Threads);
  word16 *big = reinterpret_cast<word16 *>(tile);
  TENON_UNROLL_BY(4)
  for (int i = 0; i < passes; ++i) {
    const int at = i * Threads + rank;
    if (runs % Threads != 0 && at >= runs)
      break;
    unsigned x[4], y[4];
    memcpy(x, &big[at], 16);
    TENON_UNROLL
    for (int e = 0; e < 4; ++e) {
      const tf32_pair p(x[e]);
      x[e] = p.big;
      y[e] = p.small;
    }
    memcpy(&big[at], x, 16);
    memcpy(&big[runs + at], y, 16);
  }
}

} // namespace cuda
} // namespace tenon

#endif
