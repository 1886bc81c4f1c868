// Defines byte_sums: the sums of a register tile of products of 8-bit integers or of bf16, one type
// for each kind of products (common/byte_products.h, common/bf16_products.h); and by_byte_products,
// which chooses the kind for integers that the machine has.
//
//   byte_sums<How, MR, NV>    of MR patches with NV vectors of filters:
//     words                   how many words of the patches are best added at once
//     start<v>(first)         what the sums of vector v of filters begin with
//     add<Words>(x, row, w, vector)
//                             Words words from x on of each patch, `row` words apart, times the
//                             weights at w of each vector, `vector` bytes apart
//     get<r, v>()             the sums of patch r with vector v
//     add_wide<Words>(...)    of short_products: as add, in 32 bits
//
// Zero points of weights are taken from the sums: with the sum of a window's x less their zero
// point,
//
//   sum of (x - zero) * (w - z) = sum of (x - zero) * w - z * (sum of (x - zero))
//
// They are no_weight_zeros, one_weight_zero of all filters, or weight_zeros, one of each.
//
// Groups of words whose sums short_products would saturate are wide_groups of each block of
// filters, or no_wide_groups.
#ifndef TENON_RUNTIME_CPU_BYTE_SUMS_H
#define TENON_RUNTIME_CPU_BYTE_SUMS_H

#include "common/byte_products.h"
#include "cpu/neon_sums.h"
#include "cpu/unroll.h"

namespace tenon {
namespace cpu {

struct no_weight_zeros {
  static constexpr bool any = false;
  /// `sum` of filters from `filter` on, of a window whose x, less their zero point, are `window`.
  template <class V, class W> TENON_FN V apply(V sum, index_t, W) const { return sum; }
};
struct one_weight_zero {
  static constexpr bool any = true;
  int32_t value;
  template <class V, class W> TENON_FN V apply(V sum, index_t, W window) const {
    return sum - value * window;
  }
};
/// Of whole vectors of filters.
struct weight_zeros {
  static constexpr bool any = true;
  const int32_t *of;
  template <class V, class W> TENON_FN V apply(V sum, index_t filter, W window) const {
    return sum - load<native_lanes>(of + filter) * window;
  }
};

struct no_wide_groups {
  static constexpr bool any = false;
};
/// Those of block b, ascending: groups[starts[b]] to groups[starts[b + 1] - 1].
struct wide_groups {
  static constexpr bool any = true;
  const uint16_t *groups;
  const uint32_t *starts;
};

namespace detail {

/// A register for each vector of sums.
template <class How, int MR, int NV> struct byte_sums {
  using L = native_lanes;
  using V = typename L::template of<typename How::sum>;
  static constexpr int words = 1;
  V acc[MR][NV];

  template <int V_> TENON_FN void start(V first) {
    unroll<MR>([&](auto r) TENON_LAMBDA { acc[r][V_] = first; });
  }
  template <int Words>
  TENON_FN void add(const uint32_t *x, index_t row, const int8_t *w, index_t vector) {
    static_assert(Words == 1, "one word at a time");
    unroll<How::halves>([&](auto half) TENON_LAMBDA {
      i32<L> weights[NV];
      unroll<NV>([&](auto v) TENON_LAMBDA {
        i32<L> four;
        memcpy(&four, w + int(v) * vector, sizeof(four));
        weights[v] = How::template weights<L, decltype(half)::value>(four);
      });
      unroll<MR>([&](auto r) TENON_LAMBDA {
        const i32<L> value =
            broadcast<L, int32_t>(int32_t(x[(int(r) * How::halves + int(half)) * row]));
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

#if TENON_BYTE_PAIRS
template <int Words, int MR, int NV> struct byte_sums<short_products<Words>, MR, NV> {
  using L = native_lanes;
  using V = i32<L>;
  static constexpr int words = Words;
  V acc[MR][NV];

  template <int V_> TENON_FN void start(V first) {
    unroll<MR>([&](auto r) TENON_LAMBDA { acc[r][V_] = first; });
  }
  template <int Count>
  TENON_FN void add(const uint32_t *x, index_t row, const int8_t *w, index_t vector) {
    unroll<MR>([&](auto r) TENON_LAMBDA {
      V values[Count];
      unroll<Count>([&](auto i) TENON_LAMBDA {
        values[i] = broadcast<L, int32_t>(int32_t(x[int(r) * row + int(i)]));
      });
      unroll<NV>([&](auto v) TENON_LAMBDA {
        V sums = tenon::detail::multiply_byte_pairs<L>(values[0], load_four(w + int(v) * vector));
        unroll<Count - 1>([&](auto i) TENON_LAMBDA {
          constexpr int at = decltype(i)::value + 1;
          sums = tenon::detail::add_shorts<L>(
              sums, tenon::detail::multiply_byte_pairs<L>(
                        values[at], load_four(w + int(v) * vector + at * group)));
        });
        acc[r][v] = acc[r][v] + tenon::detail::add_pairs<L>(sums);
      });
    });
  }
  template <int Count>
  TENON_FN void add_wide(const uint32_t *x, index_t row, const int8_t *w, index_t vector) {
    for (int i = 0; i < Count; ++i, ++x, w += group)
      unroll<2>([&](auto half) TENON_LAMBDA {
        V weights[NV];
        unroll<NV>([&](auto v) TENON_LAMBDA {
          weights[v] =
              two_products::weights<L, decltype(half)::value>(load_four(w + int(v) * vector));
        });
        unroll<MR>([&](auto r) TENON_LAMBDA {
          const V value =
              broadcast<L, int32_t>(int32_t(x[int(r) * row] >> (8 * int(half)) & 0x00ff00ffu));
          unroll<NV>([&](auto v) TENON_LAMBDA {
            acc[r][v] = two_products::multiply_add<L>(acc[r][v], value, weights[v]);
          });
        });
      });
  }
  template <int R, int V_> TENON_FN V get() const { return acc[R][V_]; }

private:
  static constexpr index_t group = 4 * L::width; // bytes of weights beside a word
  static TENON_FN V load_four(const int8_t *w) {
    V four;
    memcpy(&four, w, sizeof(four));
    return four;
  }
};

#if TENON_SIMD_WIDTH <= 8
template <int MR, int NV> struct byte_sums<sign_products, MR, NV> {
  using L = native_lanes;
  using V = i32<L>;
  static constexpr int words = 1;
  V acc[MR][NV];

  template <int V_> TENON_FN void start(V first) {
    unroll<MR>([&](auto r) TENON_LAMBDA { acc[r][V_] = first; });
  }
  template <int Count>
  TENON_FN void add(const uint32_t *x, index_t row, const int8_t *w, index_t vector) {
    static_assert(Count == 1, "one word at a time");
    V weights[NV];
    unroll<NV>([&](auto v) TENON_LAMBDA { memcpy(&weights[v], w + int(v) * vector, sizeof(V)); });
    unroll<MR>([&](auto r) TENON_LAMBDA {
      const V value = broadcast<L, int32_t>(int32_t(x[2 * int(r) * row])),
              magnitude = broadcast<L, int32_t>(int32_t(x[(2 * int(r) + 1) * row]));
      unroll<NV>([&](auto v) TENON_LAMBDA {
        acc[r][v] = sign_products::multiply_add<L>(acc[r][v], value, magnitude, weights[v]);
      });
    });
  }
  template <int R, int V_> TENON_FN V get() const { return acc[R][V_]; }
};
#endif
#endif

/// acc += the bytes of x, which are half Half of How's, where `ones` has bytes of 1 instead of 0.
template <class How, int Half>
TENON_FN i32<native_lanes> add_bytes(i32<native_lanes> acc, i32<native_lanes> x,
                                     i32<native_lanes> ones) {
  if constexpr (How::has_signs) {
#if TENON_BYTE_PAIRS
    using namespace tenon::detail;
    if constexpr (Half == 0)
      acc = acc + add_pairs<native_lanes>(multiply_byte_pairs<native_lanes>(ones, x));
#endif
    return acc;
  } else
#if TENON_NEON_PRODUCTS
      if constexpr (!How::subtracts_zero)
    return (i32<native_lanes>)vpadalq_s16((int32x4_t)acc,
                                          vpaddlq_s8(vmulq_s8((int8x16_t)x, (int8x16_t)ones)));
  else
#endif
    return How::template multiply_add<native_lanes>(
        acc, x, How::template weights<native_lanes, Half>(ones));
}

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
#if TENON_BYTE_PAIRS && TENON_SIMD_WIDTH <= 8
  if constexpr (Cfg::short_words > 0)
    call(short_products<Cfg::short_words>{});
  else if constexpr (Cfg::fits_signs)
    call(sign_products{});
  else
#endif
    call(two_products{});
#endif
}

} // namespace detail
} // namespace cpu
} // namespace tenon

#endif
