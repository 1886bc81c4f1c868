// Defines the sums of products of 8-bit integers on aarch64 (cpu/byte_sums.h says how they are
// used), whose weights are four bytes of four filters in a vector:
//
//   long_sums     two halves of a vector's sums in two registers: each lane has two of the four
//                 products of a filter, and `get` adds neighbours
//   dot_sums      a register for each vector; the word of x is an element of the instruction
//   matrix_sums   two patches times two filters in a register: eight bytes of each at a time
//
// Four words of a patch are one load, so that patches are read in whole vectors.
#ifndef TENON_RUNTIME_CPU_NEON_SUMS_H
#define TENON_RUNTIME_CPU_NEON_SUMS_H

#include "common/byte_products.h"
#include "cpu/unroll.h"

#if TENON_NEON_PRODUCTS
#include <arm_neon.h>

namespace tenon {
namespace cpu {
namespace detail {

/// Word I of four in all lanes.
template <int I> TENON_FN int8x16_t word_of(int32x4_t words) {
  return vreinterpretq_s8_s32(vdupq_laneq_s32(words, I));
}
TENON_FN int32x4_t four_words(const uint32_t *x) { return vreinterpretq_s32_u32(vld1q_u32(x)); }

/// low, high += the products of a with x (and of b with y), neighbours added. In one piece, for
/// schedulers move products ahead until registers run out.
TENON_FN void add_long(int32x4_t &low, int32x4_t &high, int8x16_t x, int8x16_t a) {
  int16x8_t lower, upper;
  __asm__("smull %[l].8h, %[x].8b, %[a].8b\n\t"
          "smull2 %[u].8h, %[x].16b, %[a].16b\n\t"
          "sadalp %[low].4s, %[l].8h\n\t"
          "sadalp %[high].4s, %[u].8h"
          : [low] "+w"(low), [high] "+w"(high), [l] "=&w"(lower), [u] "=&w"(upper)
          : [x] "w"(x), [a] "w"(a));
}
TENON_FN void add_long(int32x4_t &low, int32x4_t &high, int8x16_t x, int8x16_t a, int8x16_t y,
                       int8x16_t b) {
  int16x8_t lower, upper;
  __asm__("smull %[l].8h, %[x].8b, %[a].8b\n\t"
          "smull2 %[u].8h, %[x].16b, %[a].16b\n\t"
          "smlal %[l].8h, %[y].8b, %[b].8b\n\t"
          "smlal2 %[u].8h, %[y].16b, %[b].16b\n\t"
          "sadalp %[low].4s, %[l].8h\n\t"
          "sadalp %[high].4s, %[u].8h"
          : [low] "+w"(low), [high] "+w"(high), [l] "=&w"(lower), [u] "=&w"(upper)
          : [x] "w"(x), [a] "w"(a), [y] "w"(y), [b] "w"(b));
}

template <bool Pairs, int MR, int NV> struct long_sums {
  static constexpr int words = 4;
  int32x4_t low[MR][NV], high[MR][NV];

  template <int V> TENON_FN void start(i32<native_lanes> first) {
    const int32x4_t zero = vdupq_n_s32(0), value = (int32x4_t)first;
    unroll<MR>([&](auto r) TENON_LAMBDA {
      low[r][V] = vzip1q_s32(value, zero);
      high[r][V] = vzip2q_s32(value, zero);
    });
  }
  template <int Words>
  TENON_FN void add(const uint32_t *x, index_t row, const int8_t *w, index_t vector) {
    const auto load = [&](int v, int8x16_t(&weights)[Words]) TENON_LAMBDA {
      unroll<Words>([&](auto i)
                        TENON_LAMBDA { weights[i] = vld1q_s8(w + v * vector + 16 * int(i)); });
    };
    const auto multiply = [&](auto r, auto v, const int8x16_t(&weights)[Words],
                              const int8x16_t(&value)[Words]) TENON_LAMBDA {
      constexpr int at_once = Pairs ? 2 : 1;
      unroll<(Words + at_once - 1) / at_once>([&](auto pair) TENON_LAMBDA {
        constexpr int i = decltype(pair)::value * at_once;
        if constexpr (Pairs && i + 1 < Words)
          add_long(low[r][v], high[r][v], value[i], weights[i], value[i + 1], weights[i + 1]);
        else
          add_long(low[r][v], high[r][v], value[i], weights[i]);
      });
    };
    const auto spread = [&](int r, int8x16_t(&value)[Words]) TENON_LAMBDA {
      const int32x4_t four = four_words(x + r * row);
      unroll<Words>([&](auto i) TENON_LAMBDA { value[i] = word_of<decltype(i)::value>(four); });
    };
    if constexpr (MR == 1) { // many vectors: those of the patch stay in registers
      int8x16_t value[Words], weights[Words];
      spread(0, value);
      unroll<NV>([&](auto v) TENON_LAMBDA {
        load(v, weights);
        multiply(counter<0>{}, v, weights, value);
      });
    } else {
      int8x16_t weights[NV][Words], value[Words];
      unroll<NV>([&](auto v) TENON_LAMBDA { load(v, weights[v]); });
      unroll<MR>([&](auto r) TENON_LAMBDA {
        spread(r, value);
        unroll<NV>([&](auto v) TENON_LAMBDA { multiply(r, v, weights[v], value); });
      });
    }
  }
  template <int R, int V> TENON_FN i32<native_lanes> get() const {
    return (i32<native_lanes>)vpaddq_s32(low[R][V], high[R][V]);
  }
};

// What a compiler was not told of, its assembler has to be.
template <int I> TENON_FN int32x4_t dot_word(int32x4_t acc, int8x16_t w, int32x4_t x) {
#if defined(__ARM_FEATURE_DOTPROD)
  return vdotq_laneq_s32(acc, w, vreinterpretq_s8_s32(x), I);
#else
  __asm__(".arch armv8.2-a+crypto+dotprod\n\tsdot %0.4s, %1.16b, %2.4b[%3]"
          : "+w"(acc)
          : "w"(w), "w"(x), "i"(I));
  return acc;
#endif
}
TENON_FN int32x4_t multiply_matrices(int32x4_t acc, int8x16_t x, int8x16_t w) {
#if defined(__ARM_FEATURE_MATMUL_INT8)
  return vmmlaq_s32(acc, x, w);
#else
  __asm__(".arch armv8.2-a+crypto+dotprod+i8mm\n\tsmmla %0.4s, %1.16b, %2.16b"
          : "+w"(acc)
          : "w"(x), "w"(w));
  return acc;
#endif
}

template <int MR, int NV> struct dot_sums {
  static constexpr int words = 4;
  int32x4_t acc[MR][NV];

  template <int V> TENON_FN void start(i32<native_lanes> first) {
    unroll<MR>([&](auto r) TENON_LAMBDA { acc[r][V] = (int32x4_t)first; });
  }
  template <int Words>
  TENON_FN void add(const uint32_t *x, index_t row, const int8_t *w, index_t vector) {
    int32x4_t four[MR];
    unroll<MR>([&](auto r) TENON_LAMBDA { four[r] = four_words(x + int(r) * row); });
    unroll<Words>([&](auto i) TENON_LAMBDA {
      unroll<NV>([&](auto v) TENON_LAMBDA {
        const int8x16_t weights = vld1q_s8(w + int(v) * vector + 16 * int(i));
        unroll<MR>([&](auto r) TENON_LAMBDA {
          acc[r][v] = dot_word<decltype(i)::value>(acc[r][v], weights, four[r]);
        });
      });
    });
  }
  template <int R, int V> TENON_FN i32<native_lanes> get() const {
    return (i32<native_lanes>)acc[R][V];
  }
};

template <int MR, int NV> struct matrix_sums {
  static constexpr int words = 4, pairs = (MR + 1) / 2;
  /// Two filters of each vector, and the other two.
  int32x4_t acc[pairs][NV][2];

  template <int V> TENON_FN void start(i32<native_lanes> first) {
    const int64x2_t value = vreinterpretq_s64_s32((int32x4_t)first);
    unroll<pairs>([&](auto p) TENON_LAMBDA {
      acc[p][V][0] = vreinterpretq_s32_s64(vzip1q_s64(value, value));
      acc[p][V][1] = vreinterpretq_s32_s64(vzip2q_s64(value, value));
    });
  }
  template <int Words>
  TENON_FN void add(const uint32_t *x, index_t row, const int8_t *w, index_t vector) {
    unroll<(Words + 1) / 2>([&](auto eight) TENON_LAMBDA {
      constexpr int e = decltype(eight)::value, i = 2 * e;
      int8x16_t weights[NV][2];
      unroll<NV>([&](auto v) TENON_LAMBDA {
        const auto at = [&](int word) TENON_LAMBDA {
          return vreinterpretq_s32_s8(vld1q_s8(w + int(v) * vector + 16 * word));
        };
        const int32x4_t a = at(i), b = i + 1 < Words ? at(i + 1) : vdupq_n_s32(0);
        weights[v][0] = vreinterpretq_s8_s32(vzip1q_s32(a, b));
        weights[v][1] = vreinterpretq_s8_s32(vzip2q_s32(a, b));
      });
      unroll<pairs>([&](auto p) TENON_LAMBDA {
        constexpr int r = 2 * decltype(p)::value, s = r + 1 < MR ? r + 1 : r;
        const auto half = [&](int patch) TENON_LAMBDA { return vld1_u32(x + patch * row + i); };
        const int8x16_t rows = vreinterpretq_s8_u32(vcombine_u32(half(r), half(s)));
        unroll<NV>([&](auto v) TENON_LAMBDA {
          acc[p][v][0] = multiply_matrices(acc[p][v][0], rows, weights[v][0]);
          acc[p][v][1] = multiply_matrices(acc[p][v][1], rows, weights[v][1]);
        });
      });
    });
  }
  template <int R, int V> TENON_FN i32<native_lanes> get() const {
    const int64x2_t a = vreinterpretq_s64_s32(acc[R / 2][V][0]),
                    b = vreinterpretq_s64_s32(acc[R / 2][V][1]);
    return (i32<native_lanes>)(R % 2 == 0 ? vzip1q_s64(a, b) : vzip2q_s64(a, b));
  }
};

} // namespace detail
} // namespace cpu
} // namespace tenon
#endif

#endif
