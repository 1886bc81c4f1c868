// Defines how stored elements become the values of common/values.h and come back: 16-bit floats,
// floats of eight bits and fewer, integers below a byte and booleans, by integer arithmetic on any
// lanes. Rounding is half to even; the bits are those of IEEE 754, OCP and ONNX.
#ifndef TENON_RUNTIME_COMMON_FORMATS_H
#define TENON_RUNTIME_COMMON_FORMATS_H

#include "common/values.h"

namespace tenon {
namespace detail {
// 16-bit floats by integer arithmetic, any lanes. `h` holds the 16 bits in a u32.
template <class L> TENON_FN f32<L> f16_to_f32(u32<L> h) {
  const u32<L> sign = (h & 0x8000u) << 16, magnitude = h & 0x7fffu;
  u32<L> bits = (magnitude << 13) + (112u << 23);
  bits = choose<L>(magnitude >= 0x7c00u, bits + (112u << 23), bits);
  // Subnormals are exact multiples of 2^-24.
  const f32<L> small = convert<f32<L>>(magnitude) * 5.9604644775390625e-8f;
  bits = choose<L>(magnitude < 0x400u, bitcast<u32<L>>(small), bits);
  return bitcast<f32<L>>(bits | sign);
}
template <class L> TENON_FN u32<L> f32_to_f16(f32<L> x) {
  const u32<L> bits = bitcast<u32<L>>(x), magnitude = bits & 0x7fffffffu;
  const u32<L> normal = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  // Adding 0.5 leaves a subnormal's 10 bits, rounded, at the bottom of the significand.
  const u32<L> small = bitcast<u32<L>>(bitcast<f32<L>>(magnitude) + 0.5f) - 0x3f000000u;
  u32<L> result = choose<L>(magnitude < 0x38800000u, small, normal);
  const u32<L> zero = {};
  result = choose<L>(magnitude >= 0x47800000u, zero + 0x7c00u, result);
  const u32<L> nan = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  result = choose<L>(magnitude > 0x7f800000u, nan, result);
  return result | ((bits >> 16) & 0x8000u);
}
template <class L> TENON_FN f32<L> bf16_to_f32(u32<L> h) { return bitcast<f32<L>>(h << 16); }
template <class L> TENON_FN u32<L> f32_to_bf16(f32<L> x) {
  const u32<L> bits = bitcast<u32<L>>(x);
  const u32<L> rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return choose<L>((bits & 0x7fffffffu) > 0x7f800000u, (bits >> 16) | 0x40u, rounded);
}

// Floats of eight bits and fewer, their bits in the lowest ones of a u32.
template <class L, class T> TENON_FN f32<L> minifloat_to_f32(u32<L> h) {
  using F = minifloat<T>;
  if constexpr (is_same<T, f8e8m0>) {
    u32<L> bits = h << 23;
    bits = choose<L>(h == 0u, bits + 0x00400000u, bits);
    return bitcast<f32<L>>(choose<L>(h == 0xffu, bits | 0x00400000u, bits));
  } else {
    constexpr int shift = 23 - F::mantissa;
    const u32<L> magnitude = h & (F::sign - 1), zero = {};
    u32<L> sign = (h & F::sign) << (31 - F::exponent - F::mantissa);
    // Subnormals are exact multiples of the smallest one, 2^(1 - bias - mantissa).
    const f32<L> unit = bitcast<f32<L>>(zero + (uint32_t(128 - F::bias - F::mantissa) << 23));
    const f32<L> small = convert<f32<L>>(magnitude) * unit;
    u32<L> bits = (magnitude << shift) + (uint32_t(127 - F::bias) << 23);
    bits = choose<L>(magnitude < (1u << F::mantissa), bitcast<u32<L>>(small), bits);
    if constexpr (F::kind == specials::ieee) {
      bits = choose<L>(magnitude > F::most, (magnitude << shift) | 0x7f800000u, bits);
      bits = choose<L>(magnitude > F::most + 1, bits | 0x00400000u, bits);
    } else if constexpr (F::kind == specials::nan_only) {
      bits = choose<L>(magnitude > F::most, zero + 0x7fc00000u, bits);
    } else if constexpr (F::kind == specials::fnuz) {
      bits = choose<L>(h == F::nan, zero + 0x7fc00000u, bits);
      sign = choose<L>(h == F::nan, zero, sign);
    }
    return bitcast<f32<L>>(bits | sign);
  }
}
template <class L, class T> TENON_FN u32<L> f32_to_minifloat(f32<L> x) {
  using F = minifloat<T>;
  const u32<L> bits = bitcast<u32<L>>(x), magnitude = bits & 0x7fffffffu, zero = {};
  if constexpr (is_same<T, f8e8m0>) {
    u32<L> result = (magnitude + 0x7fffffu) >> 23;
    result = choose<L>(magnitude <= 0x00400000u, zero, result);
    result = choose<L>(result > 0xfeu, zero + 0xfeu, result);
    return choose<L>(bits > 0x7f800000u, zero + 0xffu, result); // NaN, or a sign
  } else {
    constexpr int shift = 23 - F::mantissa;
    const u32<L> tie = (magnitude >> shift) & 1u;
    const u32<L> normal =
        (magnitude - (uint32_t(127 - F::bias) << 23) + ((1u << (shift - 1)) - 1) + tie) >> shift;
    // Adding a number whose last place is the smallest subnormal rounds to its multiples.
    constexpr uint32_t units = uint32_t(151 - F::bias - F::mantissa) << 23;
    const u32<L> small =
        bitcast<u32<L>>(bitcast<f32<L>>(magnitude) + bitcast<f32<L>>(zero + units)) - units;
    u32<L> result = choose<L>(magnitude < (uint32_t(128 - F::bias) << 23), small, normal);
    constexpr uint32_t overflow = F::most + (F::kind == specials::ieee ? 1 : 0);
    result = choose<L>(result > F::most, zero + overflow, result);
    const u32<L> sign = (bits >> (31 - F::exponent - F::mantissa)) & F::sign;
    constexpr bool signed_nan = F::kind == specials::ieee || F::kind == specials::nan_only;
    const u32<L> nan = (signed_nan ? sign : zero) | F::nan;
    const u32<L> number =
        F::kind == specials::fnuz ? choose<L>(result == 0u, zero, result | sign) : result | sign;
    return choose<L>(magnitude > 0x7f800000u, nan, number);
  }
}

/// Stored bits of T and the value computed with: identity but for bool, floats below f32 and
/// integers below a byte.
template <class T> struct storage { using bits = T; };
template <> struct storage<bool> { using bits = uint8_t; };
template <> struct storage<f8e4m3> { using bits = uint8_t; };
template <> struct storage<f8e4m3fnuz> { using bits = uint8_t; };
template <> struct storage<f8e5m2> { using bits = uint8_t; };
template <> struct storage<f8e5m2fnuz> { using bits = uint8_t; };
template <> struct storage<f8e8m0> { using bits = uint8_t; };
template <> struct storage<f4e2m1> { using bits = uint8_t; };
template <> struct storage<int4_t> { using bits = uint8_t; };
template <> struct storage<uint4_t> { using bits = uint8_t; };
template <> struct storage<int2_t> { using bits = uint8_t; };
template <> struct storage<uint2_t> { using bits = uint8_t; };
template <> struct storage<f16> { using bits = uint16_t; };
template <> struct storage<bf16> { using bits = uint16_t; };
template <class T> using bits_t = typename storage<T>::bits;

template <class L, class T>
TENON_FN typename L::template of<T> decode(typename L::template of<bits_t<T>> x) {
  if constexpr (is_same<T, bool>) {
    if constexpr (L::width == 1)
      return x != 0;
    else
      return convert<i32<L>>(x) != 0;
  } else if constexpr (is_same<T, f16>)
    return f16_to_f32<L>(convert<u32<L>>(x));
  else if constexpr (is_same<T, bf16>)
    return bf16_to_f32<L>(convert<u32<L>>(x));
  else if constexpr (is_minifloat<T>)
    return minifloat_to_f32<L, T>(convert<u32<L>>(x));
  else if constexpr (packed_bits<T> > 0) {
    using V = typename L::template of<T>;
    const V bits = convert<V>(x);
    if constexpr (is_signed<compute_t<T>>) { // flipping the sign bit and taking it off extends it
      constexpr int8_t sign = 1 << (packed_bits<T> - 1);
      return convert<V>((bits ^ sign) - sign);
    } else
      return bits;
  } else
    return x;
}
template <class L, class T>
TENON_FN typename L::template of<bits_t<T>> encode(typename L::template of<T> x) {
  using B = typename L::template of<bits_t<T>>;
  if constexpr (is_same<T, bool>)
    return convert<B>(x & 1);
  else if constexpr (is_same<T, f16>)
    return convert<B>(f32_to_f16<L>(x));
  else if constexpr (is_same<T, bf16>)
    return convert<B>(f32_to_bf16<L>(x));
  else if constexpr (is_minifloat<T>)
    return convert<B>(f32_to_minifloat<L, T>(x));
  else if constexpr (packed_bits<T> > 0)
    return convert<B>(convert<B>(x) & uint8_t((1 << packed_bits<T>)-1));
  else
    return x;
}

/// Types whose value is a `bits` member.
template <class T>
inline constexpr bool has_bits = is_same<T, f16> || is_same<T, bf16> ||
                                 (is_minifloat<T> && packed_bits<T> == 0);
} // namespace detail
} // namespace tenon

#endif
