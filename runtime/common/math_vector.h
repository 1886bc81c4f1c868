// Defines exp, log, tanh, sigmoid and erf of f32 for any lanes, without tables or branches, so that
// a body holding them stays in registers; and sin and cos, which branch for arguments that no
// network has, where multiply-adds are fused. Polynomials are weighted minimax fits made for this
// file.
//
// Largest error seen in a sweep over f32 (tests/unit/runtime), in units of the last place:
//   exp 1   log 1   tanh 3   sigmoid 3   erf 3   sin 2   cos 2
// Special values are those of C: exp(-inf) = 0, log(0) = -inf, log(x < 0) = NaN, NaN stays NaN;
// exp and sigmoid reach the subnormal results.
#ifndef TENON_RUNTIME_COMMON_MATH_VECTOR_H
#define TENON_RUNTIME_COMMON_MATH_VECTOR_H

#include "common/scalar_arith.h"

namespace tenon {
namespace detail {

/// c[0] + c[1] x + c[2] x^2 + ... by Horner's rule.
template <class L, class... C> TENON_FN f32<L> polynomial(f32<L> x, float c0, C... rest) {
  if constexpr (sizeof...(rest) == 0)
    return broadcast<L>(c0);
  else
    return mul_add(polynomial<L>(x, rest...), x, broadcast<L>(c0));
}

template <class L> TENON_FN f32<L> magnitude(f32<L> x) {
  return bitcast<f32<L>>(bitcast<u32<L>>(x) & 0x7fffffffu);
}
template <class L> TENON_FN f32<L> with_sign_of(f32<L> x, f32<L> sign) {
  return bitcast<f32<L>>(bitcast<u32<L>>(x) | (bitcast<u32<L>>(sign) & 0x80000000u));
}
/// 2^n for -126 <= n <= 127.
template <class L> TENON_FN f32<L> power_of_two(i32<L> n) {
  return bitcast<f32<L>>(bitcast<u32<L>>(n + 127) << 23);
}

/// e^r - 1 for |r| <= ln2/2.
template <class L> TENON_FN f32<L> less_one_exp(f32<L> r) {
  const f32<L> p =
      polynomial<L>(r, 0.49999994f, 0.1666652f, 0.041668393f, 0.008368781f, 0.0013814467f);
  return mul_add(p * r, r, r);
}

/// e^x = 2^n e^r with |r| <= ln2/2.
template <class L> TENON_FN f32<L> fast_exp(f32<L> x) {
  // NaN passes both. Beyond the bounds the result is 0 or infinity anyway.
  x = larger<L>(broadcast<L>(-104.0f), smaller<L>(broadcast<L>(89.0f), x));
  // Adding 1.5 * 2^23 rounds to the nearest integer, and leaves it in the low bits.
  const f32<L> shift = broadcast<L>(12582912.0f);
  const f32<L> shifted = mul_add(x, broadcast<L>(1.44269504f), shift);
  const f32<L> n = shifted - shift;
  const f32<L> r =
      mul_add(n, broadcast<L>(-1.42860677e-6f), mul_add(n, broadcast<L>(-0.693145752f), x));
  const f32<L> e = less_one_exp<L>(r) + 1.0f;
#if TENON_SIMD_WIDTH >= 16 && defined(__AVX512F__)
  if constexpr (L::width == 16)
    // With a mask of all lanes: g++ 12 warns of the other form's undefined operand.
    return (f32<L>)_mm512_maskz_scalef_ps(__mmask16(-1), (__m512)e, (__m512)n);
#endif
  // In two factors: 2^n itself may be subnormal or infinite.
  const i32<L> whole = bitcast<i32<L>>(shifted) - bitcast<i32<L>>(shift);
  const i32<L> half = whole >> 1;
  return e * power_of_two<L>(half) * power_of_two<L>(whole - half);
}

/// log x = e ln2 + log(1 + f) with sqrt(1/2) <= 1 + f < sqrt(2).
template <class L> TENON_FN f32<L> fast_log(f32<L> x) {
  const auto subnormal = x < 1.17549435e-38f;
  const f32<L> scaled = choose<L>(subnormal, x * 8388608.0f, x);
  // Subtracting the bits of sqrt(1/2) makes the exponent field split there.
  const i32<L> bits = bitcast<i32<L>>(bitcast<u32<L>>(scaled) - 0x3f3504f3u);
  const i32<L> exponent = bits >> 23;
  const f32<L> f = bitcast<f32<L>>((bits & 0x007fffff) + 0x3f3504f3) - 1.0f;
  const f32<L> e = convert<f32<L>>(exponent) - choose<L>(subnormal, broadcast<L>(23.0f), f32<L>{});
  const f32<L> p = polynomial<L>(f, 0.33333313f, -0.2500001f, 0.2000212f, -0.16667996f, 0.14219552f,
                                 -0.1240559f, 0.11888162f, -0.11675652f, 0.06746641f);
  const f32<L> square = f * f;
  f32<L> low = mul_add(p * square, f, e * 1.42860677e-6f);
  low = mul_add(square, broadcast<L>(-0.5f), low);
  f32<L> y = mul_add(e, broadcast<L>(0.693145752f), f + low);
  const f32<L> infinity = broadcast<L>(float(INFINITY));
  y = choose<L>(x == infinity, infinity, y);
  y = choose<L>(x == 0.0f, -infinity, y);
  return choose<L>(x >= 0.0f, y, broadcast<L>(float(NAN)));
}

/// With m = e^2|x| - 1 it is m / (m + 2), and m = 2^n (e^r - 1) + (2^n - 1), r as in fast_exp, has
/// no cancellation near zero, where n is 0.
template <class L> TENON_FN f32<L> fast_tanh(f32<L> x) {
  // From 9.02 on the result rounds to 1; NaN stays.
  const f32<L> a = smaller<L>(broadcast<L>(10.0f), magnitude<L>(x));
  const f32<L> shift = broadcast<L>(12582912.0f); // as in fast_exp
  const f32<L> shifted = mul_add(a, broadcast<L>(2.88539008f), shift);
  const f32<L> n = shifted - shift;
  const f32<L> r =
      mul_add(n, broadcast<L>(-1.42860677e-6f), mul_add(n, broadcast<L>(-0.693145752f), a + a));
  const f32<L> power = bitcast<f32<L>>((bitcast<u32<L>>(shifted) << 23) + 0x3f800000u);
  const f32<L> m = mul_add(power, less_one_exp<L>(r), power - 1.0f);
  return with_sign_of<L>(m / (m + 2.0f), x);
}

/// 1 / x within 1 ulp for 1 <= x <= 2, and NaN: CUDA's quotient looks for subnormals first.
template <class L> TENON_FN f32<L> reciprocal_of_one_to_two(f32<L> x) {
#if defined(__CUDA_ARCH__)
  const f32<L> y = __fdividef(1.0f, x);
  return mul_add(mul_add(-x, y, 1.0f), y, y);
#else
  return 1.0f / x;
#endif
}

template <class L> TENON_FN f32<L> fast_sigmoid(f32<L> x) {
  // From e^-|x| both halves are free of overflow and of cancellation.
  const f32<L> e = fast_exp<L>(-magnitude<L>(x));
  const f32<L> y = reciprocal_of_one_to_two<L>(1.0f + e);
  return choose<L>(x < 0.0f, e * y, y);
}

/// Near zero an odd polynomial; beyond, 1 - e^q(|x|) with q fitted to log erfc.
template <class L> TENON_FN f32<L> fast_erf(f32<L> x) {
  const f32<L> a = magnitude<L>(x);
  const f32<L> square = x * x;
  const f32<L> small = x * polynomial<L>(square, 1.1283792f, -0.37612632f, 0.11283679f,
                                         -0.026858497f, 0.00519883f, -0.0008118075f, 8.267462e-05f);
  // From 3.925 on the result rounds to 1; NaN stays.
  const f32<L> t = choose<L>(a > 4.0f, broadcast<L>(4.0f), a);
  const f32<L> q = polynomial<L>(t, 0.00017928302f, -1.129537f, -0.63330257f, -0.10832871f,
                                 0.025150767f, -0.00418293f, 0.00043690583f, -2.1305928e-05f);
  const f32<L> large = 1.0f - fast_exp<L>(q);
  return choose<L>(a < 0.9375f, small, with_sign_of<L>(large, x));
}

/// Whether a comparison holds in some lane.
template <class L, class Mask> TENON_FN bool any_lane(Mask mask) {
  if constexpr (L::width == 1) {
    return mask;
  } else {
    uint64_t words[sizeof(Mask) / 8], all = 0;
    memcpy(words, &mask, sizeof(mask));
    for (uint64_t word : words)
      all |= word;
    return all != 0;
  }
}

#if defined(__FMA__) || defined(__aarch64__)
#define TENON_FUSED_SINES 1
/// sin(x + Quarter * pi/2), for |x| up to 2^15: x less the nearest multiple of pi/2, which the
/// first of three parts leaves exact, then one of two polynomials by the quadrant.
template <class L, int Quarter> TENON_FN f32<L> sine_of_quadrant(f32<L> x) {
  const f32<L> shift = broadcast<L>(12582912.0f); // as in fast_exp
  const f32<L> shifted = mul_add(x, broadcast<L>(0.636619772f), shift);
  const f32<L> n = shifted - shift;
  f32<L> r = mul_add(n, broadcast<L>(-1.57079637f), x);
  r = mul_add(n, broadcast<L>(4.37113883e-08f), r);
  r = mul_add(n, broadcast<L>(1.71512451e-15f), r);
  const f32<L> square = r * r;
  const f32<L> sine =
      mul_add(r * square, polynomial<L>(square, -0.16666655f, 0.008332178f, -0.00019517266f), r);
  const f32<L> cosine =
      mul_add(square * square, polynomial<L>(square, 0.041666646f, -0.0013887368f, 2.4438415e-05f),
              mul_add(square, broadcast<L>(-0.5f), broadcast<L>(1.0f)));
  const u32<L> quadrant = bitcast<u32<L>>(shifted) + uint32_t(Quarter);
  const f32<L> y = choose<L>((quadrant & 1u) != 0u, cosine, sine);
  return bitcast<f32<L>>(bitcast<u32<L>>(y) ^ ((quadrant & 2u) << 30));
}

template <class L> TENON_FN f32<L> fast_sin(f32<L> x) {
  const f32<L> a = magnitude<L>(x);
  if (any_lane<L>(a > 32768.0f)) // NaN stays NaN below, too
    return per_lane(x, [](float v) { return ::sinf(v); });
  // That of -0 is -0.
  return choose<L>(a < 1e-4f, x, sine_of_quadrant<L, 0>(x));
}
template <class L> TENON_FN f32<L> fast_cos(f32<L> x) {
  if (any_lane<L>(magnitude<L>(x) > 32768.0f))
    return per_lane(x, [](float v) { return ::cosf(v); });
  return sine_of_quadrant<L, 1>(x);
}
#else
#define TENON_FUSED_SINES 0
#endif

/// erf within 2^-15 of its result: an odd polynomial that is clamped where it reaches 1.
template <class L> TENON_FN f32<L> short_erf(f32<L> x) {
  // Written so that NaN passes both tests.
  x = choose<L>(x > 3.1f, broadcast<L>(3.1f), x);
  x = choose<L>(x < -3.1f, broadcast<L>(-3.1f), x);
  return x * polynomial<L>(x * x, 1.12837148f, -0.375980705f, 0.112357721f, -0.0262251403f,
                           0.00477074087f, -0.000661292288f, 6.65794869e-05f, -4.52251834e-06f,
                           1.83219711e-07f, -3.31748429e-09f);
}

} // namespace detail
} // namespace tenon

#endif
