// Defines byte_sums: the sums of a register tile of products of 8-bit integers, one type for each
// kind of products (common/byte_products.h); and by_byte_products, which chooses the kind that the
// machine has.
//
//   byte_sums<How, MR, NV>    of MR patches with NV vectors of filters:
//     words                   how many words of the patches are best added at once
//     start<v>(first)         what the sums of vector v of filters begin with
//     add<Words>(x, row, w, vector)
//                             Words words from x on of each patch, `row` words apart, times the
//                             weights at w of each vector, `vector` bytes apart
//     get<r, v>()             the sums of patch r with vector v
#ifndef TENON_RUNTIME_CPU_BYTE_SUMS_H
#define TENON_RUNTIME_CPU_BYTE_SUMS_H

#include "common/byte_products.h"
#include "cpu/neon_sums.h"
#include "cpu/unroll.h"

namespace tenon {
namespace cpu {
namespace detail {

/// A register for each vector of sums.
template <class How, int MR, int NV> struct byte_sums {
  using L = native_lanes;
  using V = i32<L>;
  static constexpr int words = 1;
  V acc[MR][NV];

  template <int V_> TENON_FN void start(V first) {
    unroll<MR>([&](auto r) TENON_LAMBDA { acc[r][V_] = first; });
  }
  template <int Words>
  TENON_FN void add(const uint32_t *x, index_t row, const int8_t *w, index_t vector) {
    static_assert(Words == 1, "one word at a time");
    unroll<How::halves>([&](auto half) TENON_LAMBDA {
      V weights[NV];
      unroll<NV>([&](auto v) TENON_LAMBDA {
        V four;
        memcpy(&four, w + int(v) * vector, sizeof(four));
        weights[v] = How::template weights<L, decltype(half)::value>(four);
      });
      unroll<MR>([&](auto r) TENON_LAMBDA {
        const V value = broadcast<L, int32_t>(int32_t(x[(int(r) * How::halves + int(half)) * row]));
        unroll<NV>([&](auto v) TENON_LAMBDA {
          acc[r][v] = How::template multiply_add<L>(acc[r][v], value, weights[v]);
        });
      });
    });
  }
  template <int R, int V_> TENON_FN V get() const { return acc[R][V_]; }
};

#if TENON_NEON_PRODUCTS
template <bool Pairs, int MR, int NV>
struct byte_sums<long_products<Pairs>, MR, NV> : long_sums<Pairs, MR, NV> {};
template <int MR, int NV> struct byte_sums<dot_products, MR, NV> : dot_sums<MR, NV> {};
template <int MR, int NV> struct byte_sums<matrix_products, MR, NV> : matrix_sums<MR, NV> {};
#endif

/// call(How{}) for the best that there is.
template <class Cfg, class Call> TENON_FN void by_byte_products(const Call &call) {
#if TENON_NEON_PRODUCTS
  if (has_matrix_products)
    return call(matrix_products{});
#if !defined(__ARM_FEATURE_MATMUL_INT8)
  if (has_dot_products)
    return call(dot_products{});
#if !defined(__ARM_FEATURE_DOTPROD)
  call(long_products<Cfg::fits_pairs>{});
#endif
#endif
#else
#if TENON_FOUR_PRODUCTS
  if (has_four_products)
    return call(four_products{});
#endif
  call(two_products{});
#endif
}

} // namespace detail
} // namespace cpu
} // namespace tenon

#endif
