// Defines arithmetic, comparison, logical and bitwise functions of bodies, for any lanes L.
//
// Exact: each result is the correctly rounded one. Integers wrap; x/0 = x mod 0 = 0. `div`
// truncates toward zero; `mod` has the sign of the divisor (Python), `rem` and `fmod` that of the
// dividend (C). min and max return NaN when either operand is NaN. A shift by the width or more, or
// by a negative count, shifts everything out; right shifts are arithmetic for signed types.
#ifndef TENON_RUNTIME_COMMON_SCALAR_ARITH_H
#define TENON_RUNTIME_COMMON_SCALAR_ARITH_H

#include "common/mul_add.h"

namespace tenon {
namespace detail {

/// Applies a scalar function lane by lane: for functions too rare for a vector form.
template <class V, class F> TENON_FN V per_lane(V x, F f) {
#if TENON_SIMD_WIDTH > 1
  if constexpr (is_vector<V>) {
    V y;
    for (int i = 0; i < traits<V>::count; ++i)
      y[i] = f(x[i]);
    return y;
  } else
#endif
    return f(x);
}
template <class V, class F> TENON_FN V per_lane(V a, V b, F f) {
#if TENON_SIMD_WIDTH > 1
  if constexpr (is_vector<V>) {
    V y;
    for (int i = 0; i < traits<V>::count; ++i)
      y[i] = f(a[i], b[i]);
    return y;
  } else
#endif
    return f(a, b);
}

/// An unsigned type of the same width, in which arithmetic wraps.
template <int S> struct unsigned_of_size;
template <> struct unsigned_of_size<1> { using type = uint8_t; };
template <> struct unsigned_of_size<2> { using type = uint16_t; };
template <> struct unsigned_of_size<4> { using type = uint32_t; };
template <> struct unsigned_of_size<8> { using type = uint64_t; };
template <class L, class V>
using wrapping =
    typename L::template of<typename unsigned_of_size<int(sizeof(element_t<V>))>::type>;
template <class V> inline constexpr bool holds_float = is_float<element_t<V>>;

/// The lanes of a comparison as L's mask.
template <class L, class M> TENON_FN b1<L> as_mask(M m) {
  if constexpr (L::width == 1)
    return m;
  else
    return convert<b1<L>>(m);
}
} // namespace detail

template <class L, class V> TENON_FN V add(V a, V b) {
  if constexpr (detail::holds_float<V>)
    return a + b;
  else
    return V(detail::wrapping<L, V>(a) + detail::wrapping<L, V>(b));
}
template <class L, class V> TENON_FN V sub(V a, V b) {
  if constexpr (detail::holds_float<V>)
    return a - b;
  else
    return V(detail::wrapping<L, V>(a) - detail::wrapping<L, V>(b));
}
template <class L, class V> TENON_FN V mul(V a, V b) {
  if constexpr (detail::holds_float<V>)
    return a * b;
  else if constexpr (sizeof(detail::element_t<V>) < 4) // as unsigned int: 16 bits promote to int
    return detail::per_lane(a, b,
                            [](auto x, auto y) { return decltype(x)(uint32_t(x) * uint32_t(y)); });
  else
    return V(detail::wrapping<L, V>(a) * detail::wrapping<L, V>(b));
}
template <class L, class V> TENON_FN V neg(V a) {
  if constexpr (detail::holds_float<V>)
    return -a;
  else
    return sub<L>(V{}, a);
}

namespace detail {
TENON_FN float approximate_quotient(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fdividef(a, b);
#else
  return a / b;
#endif
}
} // namespace detail

template <class L, class V> TENON_FN V div(V a, V b) {
  if constexpr (detail::approximates<L, V>)
    return detail::approximate_quotient(a, b);
  else if constexpr (detail::holds_float<V>)
    return a / b;
  else
    return detail::per_lane(a, b, [](auto x, auto y) {
      using T = decltype(x);
      if (y == 0)
        return T(0);
      if (T(-1) < T(0) && y == T(-1)) // the one quotient that overflows wraps
        return T(typename detail::unsigned_of_size<int(sizeof(T))>::type(0) -
                 typename detail::unsigned_of_size<int(sizeof(T))>::type(x));
      return T(x / y);
    });
}
template <class L, class V> TENON_FN V rem(V a, V b) {
  if constexpr (detail::is_same<detail::element_t<V>, float>)
    return detail::per_lane(a, b, [](float x, float y) { return ::fmodf(x, y); });
  else if constexpr (detail::is_same<detail::element_t<V>, double>)
    return detail::per_lane(a, b, [](double x, double y) { return ::fmod(x, y); });
  else
    return detail::per_lane(a, b, [](auto x, auto y) {
      using T = decltype(x);
      return y == 0 || (T(-1) < T(0) && y == T(-1)) ? T(0) : T(x % y);
    });
}
template <class L, class V> TENON_FN V fmod(V a, V b) { return rem<L>(a, b); }
template <class L, class V> TENON_FN V mod(V a, V b) {
  return detail::per_lane(rem<L>(a, b), b, [](auto r, auto y) {
    using T = decltype(r);
    return r != 0 && (r < 0) != (y < 0) ? T(r + y) : r;
  });
}

template <class L, class V> TENON_FN b1<L> equal(V a, V b) { return detail::as_mask<L>(a == b); }
template <class L, class V> TENON_FN b1<L> not_equal(V a, V b) {
  return detail::as_mask<L>(a != b);
}
template <class L, class V> TENON_FN b1<L> less(V a, V b) { return detail::as_mask<L>(a < b); }
template <class L, class V> TENON_FN b1<L> less_equal(V a, V b) {
  return detail::as_mask<L>(a <= b);
}
template <class L, class V> TENON_FN b1<L> greater(V a, V b) { return detail::as_mask<L>(a > b); }
template <class L, class V> TENON_FN b1<L> greater_equal(V a, V b) {
  return detail::as_mask<L>(a >= b);
}

template <class L> TENON_FN b1<L> logical_and(b1<L> a, b1<L> b) { return a & b; }
template <class L> TENON_FN b1<L> logical_or(b1<L> a, b1<L> b) { return a | b; }
template <class L> TENON_FN b1<L> logical_xor(b1<L> a, b1<L> b) { return a ^ b; }
template <class L> TENON_FN b1<L> logical_not(b1<L> a) {
  if constexpr (L::width == 1)
    return !a;
  else
    return ~a;
}

/// mask ? a : b, lane by lane, for values of any element type (booleans too).
template <class L, class V> TENON_FN V select(b1<L> mask, V a, V b) {
  return detail::choose<L>(mask, a, b);
}

namespace detail {
/// a < b ? a : b and a > b ? a : b, so `b` where either is NaN: what one x86 instruction does.
template <class L, class V> TENON_FN V smaller(V a, V b) {
#if TENON_SIMD_WIDTH > 1 && defined(__AVX512F__)
  if constexpr (is_same<V, simd<16>::of<float>>)
    return (V)_mm512_maskz_min_ps((__mmask16)-1, (__m512)a, (__m512)b);
  if constexpr (is_same<V, simd<16>::of<int32_t>>) // g++ loses the one instruction at constants
    return (V)_mm512_maskz_min_epi32((__mmask16)-1, (__m512i)a, (__m512i)b);
#endif
#if TENON_SIMD_WIDTH > 1 && defined(__AVX__)
  if constexpr (is_same<V, simd<8>::of<float>>)
    return (V)_mm256_min_ps((__m256)a, (__m256)b);
#endif
#if TENON_SIMD_WIDTH > 1 && defined(__AVX2__)
  if constexpr (is_same<V, simd<8>::of<int32_t>>)
    return (V)_mm256_min_epi32((__m256i)a, (__m256i)b);
#endif
#if TENON_SIMD_WIDTH > 1 && defined(__aarch64__)
  if constexpr (is_same<V, simd<4>::of<int32_t>>)
    return (V)vminq_s32((int32x4_t)a, (int32x4_t)b);
#endif
  return select<L>(as_mask<L>(a < b), a, b);
}
template <class L, class V> TENON_FN V larger(V a, V b) {
#if TENON_SIMD_WIDTH > 1 && defined(__AVX512F__)
  if constexpr (is_same<V, simd<16>::of<float>>)
    return (V)_mm512_maskz_max_ps((__mmask16)-1, (__m512)a, (__m512)b);
  if constexpr (is_same<V, simd<16>::of<int32_t>>) // g++ loses the one instruction at constants
    return (V)_mm512_maskz_max_epi32((__mmask16)-1, (__m512i)a, (__m512i)b);
#endif
#if TENON_SIMD_WIDTH > 1 && defined(__AVX__)
  if constexpr (is_same<V, simd<8>::of<float>>)
    return (V)_mm256_max_ps((__m256)a, (__m256)b);
#endif
#if TENON_SIMD_WIDTH > 1 && defined(__AVX2__)
  if constexpr (is_same<V, simd<8>::of<int32_t>>)
    return (V)_mm256_max_epi32((__m256i)a, (__m256i)b);
#endif
#if TENON_SIMD_WIDTH > 1 && defined(__aarch64__)
  if constexpr (is_same<V, simd<4>::of<int32_t>>)
    return (V)vmaxq_s32((int32x4_t)a, (int32x4_t)b);
#endif
  return select<L>(as_mask<L>(a > b), a, b);
}
} // namespace detail

// NaN in `b` passes through smaller and larger; NaN in `a` is put back. Devices from sm_80 on have
// instructions for it, which nvcc does not find.
template <class L, class V> TENON_FN V min(V a, V b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (detail::is_same<V, float>) {
    float y;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
    return y;
  }
#endif
  const V y = detail::smaller<L>(a, b);
  if constexpr (detail::holds_float<V>)
    return select<L>(detail::as_mask<L>(a != a), a, y);
  else
    return y;
}
template <class L, class V> TENON_FN V max(V a, V b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (detail::is_same<V, float>) {
    float y;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
    return y;
  }
#endif
  const V y = detail::larger<L>(a, b);
  if constexpr (detail::holds_float<V>)
    return select<L>(detail::as_mask<L>(a != a), a, y);
  else
    return y;
}
namespace detail {
/// Whether V fills two registers of x86-64: gcc compares and selects such vectors element by
/// element, some thirty instructions each.
template <class V>
inline constexpr bool fills_two_registers = TENON_SIMD_WIDTH >= 8 && is_vector<V> &&
                                            sizeof(V) > 4 * TENON_SIMD_WIDTH;
#if TENON_SIMD_WIDTH > 1
/// f(the lower halves of all), f(the upper halves) as one vector.
template <class L, class F, class V, class... More>
TENON_FN V by_halves(const F &f, V first, More... more) {
  using H = simd<L::width / 2>;
  using Half = typename H::template of<element_t<V>>;
  const auto half = [](const V &v, int i) {
    Half h;
    memcpy(&h, reinterpret_cast<const char *>(&v) + i * int(sizeof(Half)), sizeof(h));
    return h;
  };
  V y;
  for (int i = 0; i < 2; ++i) {
    const Half h = f(H{}, half(first, i), half(more, i)...);
    memcpy(reinterpret_cast<char *>(&y) + i * int(sizeof(Half)), &h, sizeof(h));
  }
  return y;
}
#endif
} // namespace detail

template <class L, class V> TENON_FN V clamp(V x, V lo, V hi) {
#if TENON_SIMD_WIDTH > 1
  if constexpr (detail::fills_two_registers<V>)
    return detail::by_halves<L>([](auto lanes, auto v, auto low,
                                   auto high) { return clamp<decltype(lanes)>(v, low, high); },
                                x, lo, hi);
#endif
#if defined(__ARM_FEATURE_SAT) && defined(__GNUC__) // one instruction, which compilers do not find
  if constexpr (detail::is_same<V, int32_t>)
    if (__builtin_constant_p(lo) && __builtin_constant_p(hi) && lo == -128 && hi == 127) {
      int32_t y;
      __asm__("ssat %0, #8, %1" : "=r"(y) : "r"(x));
      return y;
    }
#endif
  return min<L>(max<L>(x, lo), hi);
}
/// clamp(x, 0, hi) of 32-bit integers for hi that is not negative.
template <class L, class V> TENON_FN V clamp_positive(V x, V hi) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 // one instruction, which nvcc does not find
  if constexpr (detail::is_same<V, int32_t>) {
    int32_t y;
    asm("min.relu.s32 %0, %1, %2;" : "=r"(y) : "r"(x), "r"(hi));
    return y;
  }
#endif
  return clamp<L>(x, V{}, hi);
}
template <class L, class V> TENON_FN V relu(V x) { // NaN stays
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (detail::is_same<V, float>)
    return max<L>(V{}, x);
#endif
  return detail::larger<L>(V{}, x);
}
template <class L, class V> TENON_FN V abs(V x) {
  if constexpr (detail::is_same<detail::element_t<V>, float>)
    return detail::bitcast<V>(detail::bitcast<u32<L>>(x) & 0x7fffffffu);
  else if constexpr (detail::is_same<detail::element_t<V>, double>)
    return detail::bitcast<V>(detail::bitcast<u64<L>>(x) & (~uint64_t(0) >> 1));
  else
    return select<L>(detail::as_mask<L>(x < V{}), neg<L>(x), x);
}
/// -1, 0 or 1; NaN stays.
template <class L, class V> TENON_FN V sign(V x) {
  const V one = V{} + detail::element_t<V>(1), minus = V{} - detail::element_t<V>(1);
  return select<L>(detail::as_mask<L>(x > V{}), one,
                   select<L>(detail::as_mask<L>(x < V{}), minus, x));
}
template <class L, class V> TENON_FN b1<L>(isnan)(V x) { return detail::as_mask<L>(x != x); }
template <class L, class V> TENON_FN b1<L>(isinf)(V x) {
  const V infinity = V{} + detail::element_t<V>(INFINITY);
  return detail::as_mask<L>(abs<L>(x) == infinity);
}

template <class L, class V> TENON_FN V bit_and(V a, V b) { return V(a & b); }
template <class L, class V> TENON_FN V bit_or(V a, V b) { return V(a | b); }
template <class L, class V> TENON_FN V bit_xor(V a, V b) { return V(a ^ b); }
template <class L, class V> TENON_FN V bit_not(V a) { return V(~a); }
template <class L, class V> TENON_FN V shift_left(V a, V count) {
  using U = detail::wrapping<L, V>;
  const U n = U(count),
          most = U{} + detail::element_t<U>(8 * int(sizeof(detail::element_t<V>)) - 1);
  const b1<L> inside = detail::as_mask<L>(n <= most);
  return detail::choose<L>(inside, V(U(a) << detail::choose<L>(inside, n, U{})), V{});
}
template <class L, class V> TENON_FN V shift_right(V a, V count) {
  using U = detail::wrapping<L, V>;
  constexpr int bits = 8 * int(sizeof(detail::element_t<V>));
  const b1<L> inside = detail::as_mask<L>(U(count) <= U{} + detail::element_t<U>(bits - 1));
  const V all = detail::is_signed<detail::element_t<V>> ? V(a >> (bits - 1)) : V{};
  return detail::choose<L>(inside, V(a >> detail::choose<L>(inside, count, V{})), all);
}
/// a / 2^count to the nearest integer, half to even; 0 for a count beyond the width.
template <class L, class V> TENON_FN V round_shift(V a, V count) {
#if TENON_SIMD_WIDTH > 1
  if constexpr (detail::fills_two_registers<V>)
    return detail::by_halves<L>(
        [](auto lanes, auto v, auto by) { return round_shift<decltype(lanes)>(v, by); }, a, count);
#endif
  using T = detail::element_t<V>;
  using U = detail::wrapping<L, V>;
  constexpr int bits = 8 * int(sizeof(T));
  const V one = V{} + T(1), down = shift_right<L>(a, count);
  const U rest = U(a) - U(shift_left<L>(down, count));
  const U half = U(shift_left<L>(one, sub<L>(count, one)));
  const b1<L> odd = detail::as_mask<L>((down & one) != V{});
  const b1<L> up = logical_or<L>(
      detail::as_mask<L>(rest > half),
      logical_and<L>(
          logical_and<L>(detail::as_mask<L>(rest == half), detail::as_mask<L>(rest != U{})), odd));
  const b1<L> inside = detail::as_mask<L>(U(count) <= U{} + detail::element_t<U>(bits));
  return select<L>(inside, select<L>(up, add<L>(down, one), down), V{});
}
/// The upper 32 of the 64 bits of a product.
template <class L> TENON_FN i32<L> mul_high(i32<L> a, i32<L> b) {
  if constexpr (detail::has_own<L>)
    return L::mul_high(a, b);
  else {
#if TENON_SIMD_WIDTH > 1 && defined(__AVX512F__)
    if constexpr (L::width == 16) {
      // Upper halves by shuffles, which have a port of their own beside products and shifts.
      const auto upper = [](__m512i v) {
        return _mm512_maskz_shuffle_epi32((__mmask16)-1, v, _MM_PERM_DDBB);
      };
      const __m512i x = (__m512i)a, y = (__m512i)b;
      const __m512i even = _mm512_maskz_mul_epi32((__mmask8)-1, x, y);
      const __m512i odd = _mm512_maskz_mul_epi32((__mmask8)-1, upper(x), upper(y));
      return (i32<L>)_mm512_mask_shuffle_epi32(odd, (__mmask16)0x5555, even, _MM_PERM_DDBB);
    }
#endif
#if TENON_SIMD_WIDTH > 1 && defined(__AVX2__)
    if constexpr (L::width == 8) {
      const __m256i x = (__m256i)a, y = (__m256i)b;
      const __m256i even = _mm256_mul_epi32(x, y);
      const __m256i odd = _mm256_mul_epi32(_mm256_srli_epi64(x, 32), _mm256_srli_epi64(y, 32));
      return (i32<L>)_mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
    }
#endif
#if TENON_SIMD_WIDTH > 1 && defined(__aarch64__)
    if constexpr (L::width == 4) {
      const int32x4_t x = (int32x4_t)a, y = (int32x4_t)b;
      const int64x2_t low = vmull_s32(vget_low_s32(x), vget_low_s32(y)),
                      high = vmull_high_s32(x, y);
      return (i32<L>)vuzp2q_s32(vreinterpretq_s32_s64(low), vreinterpretq_s32_s64(high));
    }
#endif
    return detail::convert<i32<L>>((detail::convert<i64<L>>(a) * detail::convert<i64<L>>(b)) >> 32);
  }
}

/// mul_high(a, b) + c, one instruction on ARM cores with the DSP extension.
template <class L> TENON_FN i32<L> mul_high_add(i32<L> a, i32<L> b, i32<L> c) {
#if defined(__ARM_FEATURE_DSP) && defined(__GNUC__) && !defined(__aarch64__)
  if constexpr (detail::is_same<i32<L>, int32_t>) {
    int32_t y;
    __asm__("smmla %0, %1, %2, %3" : "=r"(y) : "r"(a), "r"(b), "r"(c));
    return y;
  } else
#endif
    return add<L>(mul_high<L>(a, b), c);
}
/// x >> Count, from 1 to 31, clamped to the values of T, a byte; one instruction on ARM cores.
template <class L, class T, int Count> TENON_FN i32<L> shift_right_to(i32<L> x) {
  constexpr bool is_signed = T(-1) < T(0);
#if defined(__ARM_FEATURE_SAT) && defined(__GNUC__)
  if constexpr (detail::is_same<i32<L>, int32_t>) {
    int32_t y;
    if constexpr (is_signed)
      __asm__("ssat %0, #8, %1, asr %2" : "=r"(y) : "r"(x), "i"(Count));
    else
      __asm__("usat %0, #8, %1, asr %2" : "=r"(y) : "r"(x), "i"(Count));
    return y;
  } else
#endif
    return clamp<L>(shift_right<L>(x, broadcast<L>(int32_t(Count))),
                    broadcast<L>(int32_t(is_signed ? -128 : 0)),
                    broadcast<L>(int32_t(is_signed ? 127 : 255)));
}

/// a*b + c in one rounding, always.
template <class L, class V> TENON_FN V fma(V a, V b, V c) {
#if TENON_SIMD_WIDTH > 1 && !defined(__FMA__) && !defined(__aarch64__)
  if constexpr (detail::is_vector<V>) {
    for (int i = 0; i < L::width; ++i)
      a[i] = fma<scalar_lanes>(a[i], b[i], c[i]);
    return a;
  }
#endif
  if constexpr (detail::is_same<V, float>)
    return ::fmaf(a, b, c);
  else if constexpr (detail::is_same<V, double>)
    return ::fma(a, b, c);
  else
    return mul_add(a, b, c);
}

} // namespace tenon

#endif
