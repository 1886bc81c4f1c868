// Defines the elementary functions of bodies, for any lanes L.
//
// f32 error bounds, in units of the last place: exp 1, log 1, tanh 3, sigmoid 3, erf 3, rsqrt 2,
// sin and cos 2 where multiply-adds are fused,
// sqrt, reciprocal and rounding exact; the rest and all of f64 are the C library's (at most 2, on
// CUDA at most 4), called lane by lane.
#ifndef TENON_RUNTIME_COMMON_SCALAR_MATH_H
#define TENON_RUNTIME_COMMON_SCALAR_MATH_H

#include "common/math_vector.h"
#include "common/scalar_arith.h"

namespace tenon {

/// f<L>(x) by the C library, lane by lane.
#define TENON_LIBRARY_FUNCTION(name, library)                                                      \
  template <class L, class V> TENON_FN V name(V x) {                                               \
    if constexpr (detail::is_same<detail::element_t<V>, float>)                                    \
      return detail::per_lane(x, [](float v) { return ::library##f(v); });                         \
    else                                                                                           \
      return detail::per_lane(x, [](double v) { return ::library(v); });                           \
  }
TENON_LIBRARY_FUNCTION(tan, tan)
TENON_LIBRARY_FUNCTION(asin, asin)
TENON_LIBRARY_FUNCTION(acos, acos)
TENON_LIBRARY_FUNCTION(atan, atan)
TENON_LIBRARY_FUNCTION(sinh, sinh)
TENON_LIBRARY_FUNCTION(cosh, cosh)
TENON_LIBRARY_FUNCTION(asinh, asinh)
TENON_LIBRARY_FUNCTION(acosh, acosh)
TENON_LIBRARY_FUNCTION(atanh, atanh)

/// On the CPU f32 has a vector form; f64, and everything on CUDA, is the library's.
#if defined(__CUDACC__)
#define TENON_VECTOR_FUNCTION(name, own) TENON_LIBRARY_FUNCTION(own, name)
#else
#define TENON_VECTOR_FUNCTION(name, own)                                                           \
  template <class L, class V> TENON_FN V own(V x) {                                                \
    if constexpr (detail::is_same<detail::element_t<V>, float>)                                    \
      return detail::fast_##name<L>(x);                                                            \
    else                                                                                           \
      return detail::per_lane(x, [](double v) { return ::name(v); });                              \
  }
#endif
namespace detail {
TENON_VECTOR_FUNCTION(exp, full_exp)
TENON_FN float approximate_exp(float x) {
#if defined(__CUDA_ARCH__)
  return __expf(x);
#else
  return ::expf(x);
#endif
}
} // namespace detail
template <class L, class V> TENON_FN V exp(V x) {
  if constexpr (detail::approximates<L, V>)
    return detail::approximate_exp(x);
  else
    return detail::full_exp<L>(x);
}
TENON_VECTOR_FUNCTION(log, log)
#if TENON_FUSED_SINES
TENON_VECTOR_FUNCTION(sin, sin)
TENON_VECTOR_FUNCTION(cos, cos)
#else
TENON_LIBRARY_FUNCTION(sin, sin)
TENON_LIBRARY_FUNCTION(cos, cos)
#endif
TENON_VECTOR_FUNCTION(tanh, tanh)
namespace detail {
TENON_VECTOR_FUNCTION(erf, full_erf)
} // namespace detail
template <class L, class V> TENON_FN V erf(V x) {
  if constexpr (detail::approximates<L, V>)
    return detail::short_erf<L>(x);
  else
    return detail::full_erf<L>(x);
}
#undef TENON_VECTOR_FUNCTION
#undef TENON_LIBRARY_FUNCTION

template <class L, class V> TENON_FN V sigmoid(V x) {
  if constexpr (detail::approximates<L, V>)
    return detail::approximate_quotient(1.0f, 1.0f + exp<L>(-x));
  else if constexpr (detail::is_same<detail::element_t<V>, float>)
    return detail::fast_sigmoid<L>(x);
  else
    return 1.0 / (1.0 + exp<L>(-x));
}

template <class L, class V> TENON_FN V pow(V a, V b) {
  if constexpr (detail::is_same<detail::element_t<V>, float>)
    return detail::per_lane(a, b, [](float x, float y) { return ::powf(x, y); });
  else if constexpr (detail::is_same<detail::element_t<V>, double>)
    return detail::per_lane(a, b, [](double x, double y) { return ::pow(x, y); });
  else // Integers by squaring, wrapping; a negative exponent gives the truncated reciprocal.
    return detail::per_lane(a, b, [](auto x, auto y) {
      using T = decltype(x);
      if (y < 0)
        return x == 1 ? T(1) : x == T(-1) ? T(y % 2 == 0 ? 1 : -1) : T(0);
      uint64_t base = uint64_t(x), result = 1;
      for (uint64_t n = uint64_t(y); n != 0; n >>= 1) {
        if (n & 1)
          result *= base;
        base *= base;
      }
      return T(result);
    });
}

template <class L, class V> TENON_FN V sqrt(V x) {
#if TENON_SIMD_WIDTH > 1 && defined(__AVX512F__) && !defined(__clang__)
  if constexpr (detail::is_same<V, simd<16>::of<float>>)
    return (V)_mm512_maskz_sqrt_ps((__mmask16)-1, (__m512)x);
#endif
#if TENON_SIMD_WIDTH > 1 && defined(__AVX__) && defined(__FMA__) && !defined(__clang__)
  if constexpr (detail::is_same<V, simd<8>::of<float>>)
    return (V)_mm256_sqrt_ps((__m256)x);
#endif
  if constexpr (detail::is_same<detail::element_t<V>, float>)
    return detail::per_lane(x, [](float v) { return ::sqrtf(v); });
  else
    return detail::per_lane(x, [](double v) { return ::sqrt(v); });
}
template <class L, class V> TENON_FN V reciprocal(V x) {
  if constexpr (detail::approximates<L, V>)
    return detail::approximate_quotient(1.0f, x);
  else
    return detail::element_t<V>(1) / x;
}
template <class L, class V> TENON_FN V rsqrt(V x) { return reciprocal<L>(sqrt<L>(x)); }

namespace detail {
/// Integers of float type from 2^23 (2^52) on are their own rounding; so are infinities and NaN.
template <class V>
inline constexpr auto whole_from = is_same<element_t<V>, float> ? element_t<V>(8388608)
                                                                : element_t<V>(4503599627370496.0);
template <class L, class V> TENON_FN V keep_sign(V x, V from) {
  using U = wrapping<L, V>;
  constexpr auto top = element_t<U>(1) << (8 * sizeof(element_t<U>) - 1);
  return bitcast<V>(bitcast<U>(x) | (bitcast<U>(from) & top));
}
/// Truncation of |x| < whole_from through the integers.
template <class L, class V> TENON_FN V chop(V x) {
  using I = typename L::template of<typename mask_int<int(sizeof(element_t<V>))>::type>;
  const V small = choose<L>(as_mask<L>(abs<L>(x) < whole_from<V>), x, V{});
  return convert<V>(convert<I>(small));
}
template <class L, class V> TENON_FN V if_fractional(V x, V rounded) {
  return choose<L>(as_mask<L>(abs<L>(x) < whole_from<V>), keep_sign<L>(rounded, x), x);
}
} // namespace detail

template <class L, class V> TENON_FN V trunc(V x) {
  return detail::if_fractional<L>(x, detail::chop<L>(x));
}
template <class L, class V> TENON_FN V floor(V x) {
  const V t = detail::chop<L>(x);
  const V one = V{} + detail::element_t<V>(1);
  return detail::if_fractional<L>(x, t - select<L>(detail::as_mask<L>(t > x), one, V{}));
}
template <class L, class V> TENON_FN V ceil(V x) {
  const V t = detail::chop<L>(x);
  const V one = V{} + detail::element_t<V>(1);
  return detail::if_fractional<L>(x, t + select<L>(detail::as_mask<L>(t < x), one, V{}));
}
/// Half to even: adding and subtracting 2^23 leaves no fraction bits.
template <class L, class V> TENON_FN V round(V x) {
  const V a = abs<L>(x);
  return detail::if_fractional<L>(x, (a + detail::whole_from<V>)-detail::whole_from<V>);
}

} // namespace tenon

#endif
