// Defines how vectors sum products of bf16, two to each 32-bit lane, in f32:
//
//   dot_pairs       one instruction of machines with AVX512-BF16 (vdpbf16ps)
//   widened_pairs   two multiply-adds of f32, elsewhere
//
// Products of two bf16 are exact in f32; sums round in the order of the elements, the second of a
// pair before the first, and subnormals count as zero in dot_pairs. AVX512-BF16 is part of no
// x86-64 level: `has_dot_pairs` asks the processor, as common/byte_products.h says, whose interface
// these have. `from_bytes` makes words of `halves` kinds from words of two elements.
#ifndef TENON_RUNTIME_COMMON_BF16_PRODUCTS_H
#define TENON_RUNTIME_COMMON_BF16_PRODUCTS_H

#include "common/byte_products.h"
#include "common/mul_add.h"

#if TENON_SIMD_WIDTH >= 16 && defined(__x86_64__)
#define TENON_DOT_PAIRS 1
#else
#define TENON_DOT_PAIRS 0
#endif

namespace tenon {

/// What they have in common: no zero point, so that sums begin with 0. Patches are longer, and
/// those that share one reading of the weights stay in the second cache.
struct bf16_products {
  using sum = float;
  static constexpr int chunk_bytes = 128 << 10;
  template <class T> static constexpr int32_t offset = 0;
  static constexpr bool subtracts_zero = true;
};

#if TENON_DOT_PAIRS
namespace detail {
inline bool detect_dot_pairs() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a >> 5 & 1) != 0; // AVX512_BF16
}
} // namespace detail
inline const bool has_dot_pairs = detail::detect_dot_pairs();

struct dot_pairs : bf16_products {
  static constexpr int halves = 1;
  template <class L, class T, int Half> static TENON_FN i32<L> from_bytes(i32<L> x, int32_t) {
    return x;
  }
  template <class L, int Half> static TENON_FN i32<L> weights(i32<L> w) { return w; }
  template <class L> static TENON_FN f32<L> multiply_add(f32<L> acc, i32<L> x, i32<L> w) {
    static_assert(L::width == TENON_SIMD_WIDTH, "whole registers");
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(acc) : "v"(x), "v"(w));
    return acc;
  }
};
#endif

/// The second element of each lane is its first half.
struct widened_pairs : bf16_products {
  static constexpr int halves = 2;
  template <class L, class T, int Half> static TENON_FN i32<L> from_bytes(i32<L> x, int32_t) {
    return Half == 0 ? x & int32_t(0xffff0000u)
                     : detail::convert<i32<L>>(detail::convert<u32<L>>(x) << 16);
  }
  template <class L, int Half> static TENON_FN i32<L> weights(i32<L> w) {
    return from_bytes<L, bf16, Half>(w, 0);
  }
  template <class L> static TENON_FN f32<L> multiply_add(f32<L> acc, i32<L> x, i32<L> w) {
    return mul_add(detail::bitcast<f32<L>>(x), detail::bitcast<f32<L>>(w), acc);
  }
};

} // namespace tenon

#endif
