// Defines the sums of products that conv_quads and depthwise_quads are made of, on cores with MVE
// (common/quads.h): runs of bytes with one filter or four, whose weights have 8 bits or are fields
// of 16 bytes (common/weight_fields.h), and taps of four channels. Elsewhere the same in plain C++.
#ifndef TENON_RUNTIME_CPU_QUAD_PRODUCTS_H
#define TENON_RUNTIME_CPU_QUAD_PRODUCTS_H

#include "common/quads.h"
#include "common/weight_fields.h"
#include "cpu/unroll.h"

namespace tenon {
namespace cpu {
namespace detail {

// The innermost steps are written in assembly: compilers advance no pointers in loads, and load
// ahead until the constants of bodies no longer fit in the eight vector registers. They do not see
// that memory is read: these are for functions that are not inlined, and write nothing that they
// read.
#if defined(__ARM_FEATURE_MVE)
/// 16 products of x with one filter, or with each of four; all pointers go on.
TENON_FN void dot_16(const int8_t *&x, const int8_t *(&w)[1], int32_t (&acc)[1]) {
  int8x16_t bytes, weights;
  __asm__("vldrb.8 %q0, [%3], #16\n\t"
          "vldrb.8 %q1, [%4], #16\n\t"
          "vmladava.s8 %2, %q0, %q1"
          : "=&t"(bytes), "=&t"(weights), "+Te"(acc[0]), "+r"(x), "+r"(w[0]));
}
TENON_FN void dot_16(const int8_t *&x, const int8_t *(&w)[4], int32_t (&acc)[4]) {
  int8x16_t bytes, weights;
  __asm__("vldrb.8 %q0, [%6], #16\n\t"
          "vldrb.8 %q1, [%7], #16\n\t"
          "vmladava.s8 %2, %q0, %q1\n\t"
          "vldrb.8 %q1, [%8], #16\n\t"
          "vmladava.s8 %3, %q0, %q1\n\t"
          "vldrb.8 %q1, [%9], #16\n\t"
          "vmladava.s8 %4, %q0, %q1\n\t"
          "vldrb.8 %q1, [%10], #16\n\t"
          "vmladava.s8 %5, %q0, %q1"
          : "=&t"(bytes), "=&t"(weights), "+Te"(acc[0]), "+Te"(acc[1]), "+Te"(acc[2]),
            "+Te"(acc[3]), "+r"(x), "+r"(w[0]), "+r"(w[1]), "+r"(w[2]), "+r"(w[3]));
}
/// The same at fixed distances, of pointers that stay.
template <index_t X, index_t W0, index_t W1, index_t W2, index_t W3>
TENON_FN void dot_16_at(const int8_t *x, const int8_t *w, int32_t (&acc)[4]) {
  constexpr index_t reach = 128;
  int8x16_t bytes, weights;
  __asm__("vldrb.8 %q0, [%6, %11]\n\t"
          "vldrb.8 %q1, [%7, %12]\n\t"
          "vmladava.s8 %2, %q0, %q1\n\t"
          "vldrb.8 %q1, [%8, %13]\n\t"
          "vmladava.s8 %3, %q0, %q1\n\t"
          "vldrb.8 %q1, [%9, %14]\n\t"
          "vmladava.s8 %4, %q0, %q1\n\t"
          "vldrb.8 %q1, [%10, %15]\n\t"
          "vmladava.s8 %5, %q0, %q1"
          : "=&t"(bytes), "=&t"(weights), "+Te"(acc[0]), "+Te"(acc[1]), "+Te"(acc[2]), "+Te"(acc[3])
          : "r"(x), "r"(w + W0 / reach * reach), "r"(w + W1 / reach * reach),
            "r"(w + W2 / reach * reach), "r"(w + W3 / reach * reach), "i"(X), "i"(W0 % reach),
            "i"(W1 % reach), "i"(W2 % reach), "i"(W3 % reach));
}
#endif

/// acc + the products of four bytes at x + XOffset and four at w + WOffset.
template <index_t XOffset, index_t WOffset>
TENON_FN quad<int32_t> tap_quad(quad<int32_t> acc, const int8_t *x, const int8_t *w) {
#if defined(__ARM_FEATURE_MVE)
  if constexpr (XOffset > -128 && XOffset < 128 && WOffset < 128) {
    int32x4_t a, b;
    __asm__("vldrb.s32 %q0, [%3, %5]\n\t"
            "vldrb.s32 %q1, [%4, %6]\n\t"
            "vmul.i32 %q0, %q0, %q1\n\t"
            "vadd.i32 %q2, %q2, %q0"
            : "=&t"(a), "=&t"(b), "+t"(acc.v)
            : "l"(x), "l"(w), "i"(XOffset), "i"(WOffset));
    return acc;
  }
#endif
  return add<quads>(acc, mul<quads>(quads::load_wide(x + XOffset), quads::load_wide(w + WOffset)));
}

/// Sums of products of a run of bytes with `F` filters that lie one after the other.
template <int F, index_t Depth>
TENON_FN void dot_bytes(const int8_t *x, const int8_t *w, int32_t (&acc)[F]) {
#if defined(__ARM_FEATURE_MVE)
  unroll<F>([&](auto f) TENON_LAMBDA { acc[f] = 0; });
  if constexpr (F == 4 && Depth <= 64 && Depth % 16 == 0) {
    unroll<int(Depth / 16)>([&](auto i) TENON_LAMBDA {
      constexpr index_t at = 16 * decltype(i)::value;
      dot_16_at<at, at, Depth + at, 2 * Depth + at, 3 * Depth + at>(x, w, acc);
    });
    return;
  }
  const int8_t *filter[F];
  unroll<F>([&](auto f) TENON_LAMBDA { filter[f] = w + int(f) * Depth; });
  if constexpr (Depth < 80)
    unroll<int(Depth / 16)>([&](auto) TENON_LAMBDA { dot_16(x, filter, acc); });
  else
    for (index_t i = 0; i < Depth / 16; ++i)
      dot_16(x, filter, acc);
  if constexpr (Depth % 16 != 0) {
    const mve_pred16_t rest = vctp8q(uint32_t(Depth % 16));
    const int8x16_t bytes = vldrbq_z_s8(x, rest);
    unroll<F>([&](auto f) TENON_LAMBDA {
      acc[f] = vmladavaq_s8(acc[f], bytes, vldrbq_z_s8(filter[f], rest));
    });
  }
#else
  for (int f = 0; f < F; ++f) {
    acc[f] = 0;
    for (index_t i = 0; i < Depth; ++i)
      acc[f] += x[i] * w[f * Depth + i];
  }
#endif
}

#if defined(__ARM_FEATURE_MVE)
/// 16 weights of group Group of a run, times 2^(8 - Bits).
template <int Bits, int Group> TENON_FN int8x16_t weight_group(int8x16_t run) {
  using fields = weight_fields<Bits, 16>;
  if constexpr (Group != 0)
    run = vshlq_n_s8(run, Bits * Group);
  if constexpr (Group + 1 < fields::groups)
    run = vandq_s8(run, vdupq_n_s8(int8_t(fields::group(0xff, 0))));
  return run;
}

/// acc[f] += the products of Count bytes with a run of each filter, times 2^(8 - Bits).
template <int F, int Count, int Bits>
TENON_FN void dot_run(const int8_t *x, const int8_t *w, index_t row, int32_t (&acc)[F]) {
  int8x16_t runs[F];
  unroll<F>([&](auto f) TENON_LAMBDA { runs[f] = vldrbq_s8(w + int(f) * row); });
  unroll<ceil_div(Count, 16)>([&](auto g) TENON_LAMBDA {
    constexpr int first = 16 * decltype(g)::value, left = Count - first;
    const int8x16_t bytes =
        left >= 16 ? vldrbq_s8(x + first) : vldrbq_z_s8(x + first, vctp8q(uint32_t(left)));
    unroll<F>([&](auto f) TENON_LAMBDA {
      const int8x16_t weights = weight_group<Bits, decltype(g)::value>(runs[f]);
      acc[f] = vmladavaq_s8(acc[f], bytes, weights);
    });
  });
}
#endif

/// As dot_bytes, with filters of fields.
template <int F, index_t Depth, int Bits>
TENON_FN void dot_fields(const int8_t *x, const int8_t *w, int32_t (&acc)[F]) {
  using fields = weight_fields<Bits, 16>;
  constexpr index_t row = fields::row_bytes(Depth);
  unroll<F>([&](auto f) TENON_LAMBDA { acc[f] = 0; });
#if defined(__ARM_FEATURE_MVE)
  for (index_t i = 0; i < Depth / fields::run; ++i, x += fields::run, w += 16)
    dot_run<F, fields::run, Bits>(x, w, row, acc);
  if constexpr (Depth % fields::run != 0)
    dot_run<F, int(Depth % fields::run), Bits>(x, w, row, acc);
  unroll<F>([&](auto f) TENON_LAMBDA { acc[f] = fields::descale(acc[f]); });
#else
  for (int f = 0; f < F; ++f)
    for (index_t i = 0; i < Depth; ++i)
      acc[f] += x[i] * fields::at(w + f * row, i);
#endif
}

/// The sum of a filter of fields.
template <index_t Depth, int Bits> TENON_FN int32_t sum_fields(const int8_t *w) {
  using fields = weight_fields<Bits, 16>;
  int32_t sum = 0;
#if defined(__ARM_FEATURE_MVE)
  for (index_t i = 0; i < fields::row_bytes(Depth); i += 16) {
    const int8x16_t run = vldrbq_s8(w + i);
    unroll<fields::groups>([&](auto g) TENON_LAMBDA {
      const int8x16_t weights =
          weight_group<Bits, decltype(g)::value>(run); // macros split at commas
      sum = vaddvaq_s8(sum, weights);
    });
  }
  return fields::descale(sum);
#else
  for (index_t i = 0; i < Depth; ++i)
    sum += fields::at(w, i);
  return sum;
#endif
}

template <index_t Depth> TENON_FN int32_t sum_bytes(const int8_t *w) {
  int32_t sum = 0;
#if defined(__ARM_FEATURE_MVE)
  index_t left = Depth;
  for (; left >= 16; left -= 16, w += 16)
    sum = vaddvaq_s8(sum, vldrbq_s8(w));
  if (left > 0)
    sum = vaddvaq_s8(sum, vldrbq_z_s8(w, vctp8q(uint32_t(left))));
#else
  for (index_t i = 0; i < Depth; ++i)
    sum += w[i];
#endif
  return sum;
}

/// Products of a window with F filters, and the sum of a filter, of weights of any width.
template <class Cfg, int F, index_t Depth>
TENON_FN void dot_window(const int8_t *x, const int8_t *w, int32_t (&acc)[F]) {
  if constexpr (Cfg::weight_bits == 8)
    dot_bytes<F, Depth>(x, w, acc);
  else
    dot_fields<F, Depth, Cfg::weight_bits>(x, w, acc);
}
template <class Cfg, index_t Depth> TENON_FN int32_t sum_filter(const int8_t *w) {
  if constexpr (Cfg::weight_bits == 8)
    return sum_bytes<Depth>(w);
  else
    return sum_fields<Depth, Cfg::weight_bits>(w);
}
/// Bytes from one filter to the next.
template <class Cfg, index_t Depth>
inline constexpr index_t filter_bytes = weight_fields<Cfg::weight_bits, 16>::row_bytes(Depth);

} // namespace detail
} // namespace cpu
} // namespace tenon

#endif
