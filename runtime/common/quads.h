// Defines quads: lanes of four integers, each in 32 bits whatever its type, in a vector register of
// cores with MVE (Helium); elsewhere the same in plain C++. Bytes widen as they are loaded and
// narrow as they are stored, one instruction each.
//
// They have the functions that bodies of integer sums use, and no others: add, sub, mul, mul_high,
// shift_left, shift_right and round_shift by 0 to 31, min, max and clamp of 32-bit integers, casts
// between integer types, look-up by bytes.
#ifndef TENON_RUNTIME_COMMON_QUADS_H
#define TENON_RUNTIME_COMMON_QUADS_H

#include "common/scalar_cast.h"

#if defined(__ARM_FEATURE_MVE)
#include <arm_mve.h>
#endif

namespace tenon {
namespace detail {

#if defined(__ARM_FEATURE_MVE)
using quad_register = int32x4_t;
TENON_FN int32x4_t quad_vshl_unsigned(int32x4_t a, int32x4_t b) {
  return vreinterpretq_s32_u32(vshlq_u32(vreinterpretq_u32_s32(a), b));
}
#define TENON_QUAD(NAME, INSTRUCTION, EXPRESSION)                                                  \
  TENON_FN quad_register NAME(quad_register a, quad_register b) { return INSTRUCTION(a, b); }
#else
struct quad_register {
  int32_t lane[4];
};
#define TENON_QUAD(NAME, INSTRUCTION, EXPRESSION)                                                  \
  TENON_FN quad_register NAME(quad_register a, quad_register b) {                                  \
    quad_register r;                                                                               \
    for (int i = 0; i < 4; ++i) {                                                                  \
      const int32_t x = a.lane[i], y = b.lane[i];                                                  \
      r.lane[i] = int32_t(EXPRESSION);                                                             \
    }                                                                                              \
    return r;                                                                                      \
  }
#endif
TENON_QUAD(quad_add, vaddq_s32, uint32_t(x) + uint32_t(y))
TENON_QUAD(quad_sub, vsubq_s32, uint32_t(x) - uint32_t(y))
TENON_QUAD(quad_mul, vmulq_s32, uint32_t(x) * uint32_t(y))
TENON_QUAD(quad_mul_high, vmulhq_s32, (int64_t(x) * y) >> 32)
TENON_QUAD(quad_min, vminq_s32, x < y ? x : y)
TENON_QUAD(quad_max, vmaxq_s32, x > y ? x : y)
/// Shifts to the left, to the right where y is negative.
TENON_QUAD(quad_shift, vshlq_s32, y < 0 ? x >> -y : int32_t(uint32_t(x) << y))
TENON_QUAD(quad_shift_unsigned, quad_vshl_unsigned, y < 0 ? uint32_t(x) >> -y : uint32_t(x) << y)
#undef TENON_QUAD

TENON_FN quad_register quad_of(int32_t x) {
#if defined(__ARM_FEATURE_MVE)
  return vdupq_n_s32(x);
#else
  return {{x, x, x, x}};
#endif
}

/// Loads and stores of four neighbours, by type.
template <class T> TENON_FN quad_register quad_load(const T *p) {
#if defined(__ARM_FEATURE_MVE)
  if constexpr (is_same<T, int8_t>)
    return vldrbq_s32(p);
  else if constexpr (is_same<T, uint8_t>)
    return vreinterpretq_s32_u32(vldrbq_u32(p));
  else if constexpr (is_same<T, int16_t>)
    return vldrhq_s32(p);
  else if constexpr (is_same<T, uint16_t>)
    return vreinterpretq_s32_u32(vldrhq_u32(p));
  else
    return vldrwq_s32(p);
#else
  return {{int32_t(p[0]), int32_t(p[1]), int32_t(p[2]), int32_t(p[3])}};
#endif
}
template <class T> TENON_FN void quad_store(T *p, quad_register v) {
#if defined(__ARM_FEATURE_MVE)
  if constexpr (sizeof(T) == 1)
    vstrbq_s32(reinterpret_cast<int8_t *>(p), v);
  else if constexpr (sizeof(T) == 2)
    vstrhq_s32(reinterpret_cast<int16_t *>(p), v);
  else
    vstrwq_s32(p, v);
#else
  for (int i = 0; i < 4; ++i)
    p[i] = T(v.lane[i]);
#endif
}

} // namespace detail

/// Four values of an integer type T, in the lower bits of the lanes where it is narrower.
template <class T> struct quad { detail::quad_register v; };

struct quads {
  static constexpr bool own = true;
  static constexpr int width = 4;
  template <class T> using of = quad<compute_t<T>>;

  template <class T> static TENON_FN quad<T> broadcast(T x) {
    return {detail::quad_of(int32_t(x))};
  }
  template <class T> static TENON_FN quad<T> load(const T *p) { return {detail::quad_load(p)}; }
  template <class T> static TENON_FN quad<int32_t> load_wide(const T *p) {
    return {detail::quad_load(p)};
  }
  template <class T> static TENON_FN void store(T *p, quad<T> x) { detail::quad_store(p, x.v); }
  /// Narrowing costs nothing, for a store takes the lower bits only.
  template <class To, class From> static TENON_FN quad<To> cast(quad<From> x) {
    if constexpr (sizeof(From) >= sizeof(To) && !detail::is_same<From, To>) {
      return {x.v};
    } else {
      constexpr int unused = 32 - 8 * int(sizeof(From));
      const detail::quad_register up = detail::quad_shift(x.v, detail::quad_of(unused));
      if constexpr (detail::is_signed<From>)
        return {detail::quad_shift(up, detail::quad_of(-unused))};
      else
        return {detail::quad_shift_unsigned(up, detail::quad_of(-unused))};
    }
  }
  template <class T, class From>
  static TENON_FN quad<T> lookup(quad<From> x, const T (&table)[256]) {
    int32_t at[4];
    T entries[4];
    detail::quad_store(at, x.v);
    for (int i = 0; i < 4; ++i)
      entries[i] = table[uint8_t(at[i])];
    return load(entries);
  }
  static TENON_FN quad<int32_t> mul_high(quad<int32_t> a, quad<int32_t> b) {
    return {detail::quad_mul_high(a.v, b.v)};
  }
};

template <class L> TENON_FN quad<int32_t> add(quad<int32_t> a, quad<int32_t> b) {
  return {detail::quad_add(a.v, b.v)};
}
template <class L> TENON_FN quad<int32_t> sub(quad<int32_t> a, quad<int32_t> b) {
  return {detail::quad_sub(a.v, b.v)};
}
template <class L> TENON_FN quad<int32_t> mul(quad<int32_t> a, quad<int32_t> b) {
  return {detail::quad_mul(a.v, b.v)};
}
template <class L> TENON_FN quad<int32_t> min(quad<int32_t> a, quad<int32_t> b) {
  return {detail::quad_min(a.v, b.v)};
}
template <class L> TENON_FN quad<int32_t> max(quad<int32_t> a, quad<int32_t> b) {
  return {detail::quad_max(a.v, b.v)};
}
template <class L>
TENON_FN quad<int32_t> clamp(quad<int32_t> x, quad<int32_t> lo, quad<int32_t> hi) {
  return min<L>(max<L>(x, lo), hi);
}
template <class L> TENON_FN quad<int32_t> shift_right(quad<int32_t> a, quad<int32_t> count) {
  return {detail::quad_shift(a.v, detail::quad_sub(detail::quad_of(0), count.v))};
}
template <class L> TENON_FN quad<int32_t> shift_left(quad<int32_t> a, quad<int32_t> count) {
  return {detail::quad_shift(a.v, count.v)};
}
template <class L> TENON_FN quad<int32_t> round_shift(quad<int32_t> a, quad<int32_t> count) {
  const quad<int32_t> zero = quads::broadcast(int32_t(0)), one = quads::broadcast(int32_t(1));
  const quad<int32_t> down = shift_right<L>(a, count), rest = sub<L>(a, shift_left<L>(down, count));
  // One up from half a step on, or from the next number on where that would leave an odd one even.
  const quad<int32_t> half = shift_left<L>(one, sub<L>(count, one));
  const quad<int32_t> even =
      sub<L>(one, sub<L>(down, shift_left<L>(shift_right<L>(down, one), one)));
  const quad<int32_t> sum = add<L>(rest, max<L>(sub<L>(half, even), zero));
  return add<L>(down, {detail::quad_shift_unsigned(sum.v, detail::quad_sub(zero.v, count.v))});
}

} // namespace tenon

#endif
