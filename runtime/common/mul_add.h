// Defines mul_add(a, b, c) = a*b + c in one rounding where the machine has it, else in two: what
// contractions and polynomials use. With FMA instructions it is fused under every -ffp-contract
// setting, so generated files may be built with -ffp-contract=off to make their bodies' arithmetic
// the same on every compiler. The `fma` of IR bodies, fused always, is in scalar_arith.h.
#ifndef TENON_RUNTIME_COMMON_MUL_ADD_H
#define TENON_RUNTIME_COMMON_MUL_ADD_H

#include "common/lanes.h"
#include <math.h>

namespace tenon {

template <class V> TENON_FN V mul_add(V a, V b, V c) {
#if defined(__CUDACC__)
  if constexpr (detail::is_same<V, float>)
    return ::fmaf(a, b, c);
  else if constexpr (detail::is_same<V, double>)
    return ::fma(a, b, c);
#else
  if constexpr (detail::is_same<V, float>) {
#if defined(FP_FAST_FMAF) || defined(__FP_FAST_FMAF) || defined(__FMA__) || defined(__aarch64__)
    return __builtin_fmaf(a, b, c); // of fmaf, -ffreestanding would leave a call
#endif
  } else if constexpr (detail::is_same<V, double>) {
#if defined(FP_FAST_FMA) || defined(__FP_FAST_FMA) || defined(__FMA__) || defined(__aarch64__)
    return __builtin_fma(a, b, c);
#endif
  }
#if TENON_SIMD_WIDTH > 1 && defined(__FMA__)
#if defined(__AVX512F__)
  else if constexpr (detail::is_same<V, simd<16>::of<float>>)
    return (V)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
  else if constexpr (detail::is_same<V, simd<8>::of<double>>)
    return (V)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#endif
  else if constexpr (detail::is_same<V, simd<8>::of<float>>)
    return (V)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
  else if constexpr (detail::is_same<V, simd<4>::of<float>>)
    return (V)_mm_fmadd_ps((__m128)a, (__m128)b, (__m128)c);
  else if constexpr (detail::is_same<V, simd<4>::of<double>>)
    return (V)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
  else if constexpr (detail::is_same<V, simd<2>::of<double>>)
    return (V)_mm_fmadd_pd((__m128d)a, (__m128d)b, (__m128d)c);
#elif TENON_SIMD_WIDTH > 1 && defined(__aarch64__)
  else if constexpr (detail::is_same<V, simd<4>::of<float>>)
    return (V)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
  else if constexpr (detail::is_same<V, simd<2>::of<double>>)
    return (V)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b);
#endif
#endif
  // Not reached for fused types; integers, and machines without FMA, end here.
  return a * b + c;
}

} // namespace tenon

#endif
