// Defines cast, quantize and dequantize of bodies, for any lanes L.
//
// Casts: integer to integer wraps; float to integer truncates and saturates (NaN gives 0); to
// floats below f32 round as a store does and stay f32 values; to bool tests for non-zero.
// quantize(x, scale, zp) = saturate(round_half_even(x / scale) + zp), as QuantizeLinear.
#ifndef TENON_RUNTIME_COMMON_SCALAR_CAST_H
#define TENON_RUNTIME_COMMON_SCALAR_CAST_H

#include "common/scalar_math.h"

namespace tenon {
namespace detail {

/// Of an integer storage type, as values that it is computed in.
template <class T> struct integer_range {
  using value = compute_t<T>;
  static constexpr int bits = packed_bits<T> > 0 ? packed_bits<T> : 8 * int(sizeof(T));
  static constexpr int magnitude_bits = bits - (is_signed<value> ? 1 : 0);
  static constexpr value highest = value(~uint64_t(0) >> (64 - magnitude_bits));
  static constexpr value lowest = value(is_signed<value> ? -highest - 1 : 0);
};

/// Truncating, saturating conversion of float lanes V to integers T.
template <class L, class T, class V> TENON_FN typename L::template of<T> to_integer(V x) {
  using F = element_t<V>;
  using R = typename L::template of<T>;
  using range = integer_range<T>;
  // `above` is the first power of two beyond the range: a value F holds exactly.
  constexpr F above = F(2) * F(uint64_t(1) << (range::magnitude_bits - 1));
  constexpr F below = F(range::lowest);
  const b1<L> high = as_mask<L>(x >= above), low = as_mask<L>(x < below), nan = as_mask<L>(x != x);
  const V inside = choose<L>(logical_or<L>(logical_or<L>(high, low), nan), V{}, x);
  R y;
  if constexpr (range::bits < 32)
    y = convert<R>(convert<i32<L>>(inside));
  else
    y = convert<R>(inside);
  y = choose<L>(high, broadcast<L>(range::highest), y);
  return choose<L>(low, broadcast<L>(range::lowest), y);
}
} // namespace detail

template <class L, class To, class From>
TENON_FN typename L::template of<To> cast(typename L::template of<From> x) {
  using namespace detail;
  using V = typename L::template of<From>;
  using C = compute_t<To>;
  using R = typename L::template of<To>;
  if constexpr (is_same<To, From>)
    return x;
  else if constexpr (has_own<L>)
    return L::template cast<To, From>(x);
#if defined(__CUDA_ARCH__) // I2F of bytes has an eighth of the rate
  else if constexpr (is_same<To, float> && (is_same<V, uint8_t> || is_same<V, int8_t>)) {
    // Below 2^23 stand whole numbers.
    constexpr unsigned flip = is_signed<V> ? 0x80 : 0;
    return __uint_as_float(0x4b000000u | (uint8_t(x) ^ flip)) - (8388608.0f + float(flip));
  }
#endif
  else if constexpr (is_same<To, bool>)
    return as_mask<L>(x != V{});
  else if constexpr (is_same<From, bool>)
    return choose<L>(x, broadcast<L, C>(C(1)), broadcast<L, C>(C(0)));
  else if constexpr (has_bits<To> || is_minifloat<To>) {
    const f32<L> wide = convert<f32<L>>(x);
#if defined(__CUDACC__)
    if constexpr (has_bits<To>) { // many of these types have instructions
      To rounded;
      store_element(&rounded, wide);
      return load_element(&rounded);
    } else
#endif
      return decode<L, To>(encode<L, To>(wide));
  } else if constexpr (holds_float<V> && !is_float<C>)
    return to_integer<L, To>(x);
  else if constexpr (packed_bits<To> > 0)
    return decode<L, To>(encode<L, To>(convert<R>(x)));
  else
    return convert<R>(x);
}

/// To: an integer type of at most 16 bits; zp holds values of that type in any integer lanes.
template <class L, class To, class Z>
TENON_FN typename L::template of<To> quantize(f32<L> x, f32<L> scale, Z zp) {
  using range = detail::integer_range<To>;
  const f32<L> q = round<L>(x / scale) + detail::convert<f32<L>>(zp);
  const f32<L> lo = broadcast<L>(float(range::lowest)), hi = broadcast<L>(float(range::highest));
  const f32<L> inside = clamp<L>(q, lo, hi);
  const b1<L> nan = detail::as_mask<L>(inside != inside); // gives 0; all else is in range
  return detail::convert<typename L::template of<To>>(
      detail::convert<i32<L>>(detail::choose<L>(nan, f32<L>{}, inside)));
}
/// (q - zp) * scale; q and zp in the same lanes.
template <class L, class V> TENON_FN f32<L> dequantize(V q, f32<L> scale, V zp) {
  if constexpr (detail::holds_float<V>)
    return (q - zp) * scale;
  else {
    const i32<L> difference = sub<L>(detail::convert<i32<L>>(q), detail::convert<i32<L>>(zp));
    return detail::convert<f32<L>>(difference) * scale;
  }
}

} // namespace tenon

#endif
