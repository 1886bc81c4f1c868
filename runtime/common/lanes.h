// Defines how values come from memory and go to it: one element, or as many as a body computes at
// once. Lanes that bring loads and stores of their own (common/quads.h) use those.
#ifndef TENON_RUNTIME_COMMON_LANES_H
#define TENON_RUNTIME_COMMON_LANES_H

#include "common/formats.h"
#include "common/packed.h"
#include <string.h>

namespace tenon {

// --- One element ---------------------------------------------------------------------------------

template <class T> TENON_FN compute_t<T> load_element(const T *p) {
  if constexpr (detail::hardware_float<T>::loads)
    return detail::hardware_float<T>::load(p->bits);
  else if constexpr (detail::has_bits<T>)
    return detail::decode<scalar_lanes, T>(p->bits);
  else
    return *p;
}
template <class T> TENON_FN compute_t<T> load_element(packed_pointer<T> p) {
  return detail::decode<scalar_lanes, detail::bare<T>>(detail::load_bits(p));
}

template <class T> TENON_FN void store_element(T *p, compute_t<T> x) {
  if constexpr (detail::hardware_float<T>::stores)
    p->bits = detail::hardware_float<T>::store(x);
  else if constexpr (detail::has_bits<T>)
    p->bits = detail::encode<scalar_lanes, T>(x);
  else
    *p = x;
}
template <class T> TENON_FN void store_element(packed_pointer<T> p, compute_t<T> x) {
  detail::store_bits(p, detail::encode<scalar_lanes, T>(x));
}

// --- L::width elements ---------------------------------------------------------------------------

/// The same scalar in every lane.
template <class L, class T> TENON_FN typename L::template of<T> broadcast(T x) {
  if constexpr (detail::has_own<L>)
    return L::template broadcast<T>(x);
  else
#if TENON_SIMD_WIDTH > 1
      if constexpr (L::width > 1) {
    if constexpr (detail::is_same<T, bool>)
      return i32<L>{} - int32_t(x);
    else
      return x - typename L::template of<T>{}; // x - 0 is x, 0 + x is not (for x = -0)
  } else
#endif
    return x;
}

/// L::width neighbours from any address.
template <class L, class T> TENON_FN typename L::template of<T> load(const T *p) {
  if constexpr (detail::has_own<L>)
    return L::template load<T>(p);
  else
#if TENON_SIMD_WIDTH > 1
      if constexpr (L::width > 1) {
    typename L::template of<detail::bits_t<T>> x;
    memcpy(&x, p, sizeof(x));
    return detail::decode<L, T>(x);
  } else
#endif
    return load_element(p);
}
template <class L, class T> TENON_FN void store(T *p, typename L::template of<T> v) {
  if constexpr (detail::has_own<L>)
    L::template store<T>(p, v);
  else
#if TENON_SIMD_WIDTH > 1
      if constexpr (L::width > 1) {
    const auto x = detail::encode<L, T>(v);
    memcpy(p, &x, sizeof(x));
  } else
#endif
    store_element(p, v);
}

#if TENON_SIMD_WIDTH > 1 && defined(__AVX2__)
namespace detail {
/// All bits of the first `count` of eight lanes.
TENON_FN __m256i first_lanes(index_t count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(int(count)),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
/// The first `count` of eight lanes, by halves: processors of AMD split a masked store into dozens
/// of steps.
template <class T> TENON_FN void store_first(T *p, __m256i v, index_t count) {
  if (count >= 8)
    return _mm256_storeu_si256((__m256i *)p, v);
  __m128i part = _mm256_castsi256_si128(v);
  if (count & 4) {
    _mm_storeu_si128((__m128i *)p, part);
    p += 4;
    part = _mm256_extracti128_si256(v, 1);
  }
  if (count & 2) {
    _mm_storel_epi64((__m128i *)p, part);
    p += 2;
    part = _mm_unpackhi_epi64(part, part);
  }
  if (count & 1) {
    const int last = _mm_cvtsi128_si32(part);
    memcpy(p, &last, sizeof(last));
  }
}
} // namespace detail
#endif

/// The first `count` (0 ... L::width) lanes only; the others read as zero and are never touched.
template <class L, class T>
TENON_FN typename L::template of<T> load_partial(const T *p, index_t count) {
  if constexpr (detail::has_own<L>) {
    T lanes[L::width] = {};
    for (index_t i = 0; i < count; ++i)
      lanes[i] = p[i];
    return load<L, T>(lanes);
  } else
#if TENON_SIMD_WIDTH > 1
#if defined(__AVX512VL__) &&                                                                       \
    defined(__AVX512BW__) // masked: a copy through memory would stall on store forwarding
    if constexpr (L::width == 16 && sizeof(T) == 4)
      return (typename L::template of<T>)_mm512_maskz_loadu_epi32(__mmask16((1u << count) - 1), p);
    else if constexpr (L::width == 8 && sizeof(T) == 4)
      return (typename L::template of<T>)_mm256_maskz_loadu_epi32(__mmask8((1u << count) - 1), p);
    else if constexpr (L::width == 16 && sizeof(T) == 1)
      return detail::decode<L, T>((typename L::template of<detail::bits_t<T>>)_mm_maskz_loadu_epi8(
          __mmask16((1u << count) - 1), p));
    else
#elif defined(__AVX2__)
      if constexpr (L::width == 8 && sizeof(T) == 4)
    return (typename L::template of<T>)_mm256_maskload_epi32((const int *)p,
                                                             detail::first_lanes(count));
  else
#endif
        if constexpr (L::width > 1) {
      typename L::template of<detail::bits_t<T>> x = {};
      memcpy(&x, p, size_t(count) * sizeof(T));
      return detail::decode<L, T>(x);
    } else
#endif
      return count > 0 ? load_element(p) : compute_t<T>{};
}
template <class L, class T>
TENON_FN void store_partial(T *p, typename L::template of<T> v, index_t count) {
  if constexpr (detail::has_own<L>) {
    T lanes[L::width];
    store<L, T>(lanes, v);
    for (index_t i = 0; i < count; ++i)
      p[i] = lanes[i];
  } else
#if TENON_SIMD_WIDTH > 1
#if defined(__AVX512VL__) && defined(__AVX512BW__)
      if constexpr (L::width == 16 && sizeof(T) == 4)
    _mm512_mask_storeu_epi32(p, __mmask16((1u << count) - 1), (__m512i)v);
  else if constexpr (L::width == 8 && sizeof(T) == 4)
    _mm256_mask_storeu_epi32(p, __mmask8((1u << count) - 1), (__m256i)v);
  else if constexpr (L::width == 16 && sizeof(T) == 1)
    _mm_mask_storeu_epi8(p, __mmask16((1u << count) - 1), (__m128i)detail::encode<L, T>(v));
  else
#elif defined(__AVX2__)
      if constexpr (L::width == 8 && sizeof(T) == 4)
    detail::store_first((int *)p, (__m256i)v, count);
  else
#endif
      if constexpr (L::width > 1) {
    const auto x = detail::encode<L, T>(v);
    memcpy(p, &x, size_t(count) * sizeof(T));
  } else
#endif
      if (count > 0)
    store_element(p, v);
}

#if TENON_SIMD_WIDTH > 1 && (defined(__clang__) || __GNUC__ >= 12)
namespace detail {
/// Lane i of the result is element 2 i: of two vectors, the second of which ends with the last one.
template <class L, class T, int... I> TENON_FN auto load_every_other(const T *p, indices<I...>) {
  constexpr int width = L::width;
  return __builtin_shufflevector(load<L>(p), load<L>(p + width - 1),
                                 (2 * I < width ? 2 * I : 2 * I + 1)...);
}
template <class L, class T>
constexpr bool loads_every_other = L::width >= 4 && sizeof(T) == 4 && !has_bits<T> && !has_own<L>;
} // namespace detail
#endif

#if TENON_SIMD_WIDTH > 1 && !defined(__AVX512F__)
namespace detail {
/// Lanes `stride` elements apart, put together in registers: to load what was stored element by
/// element waits until all of it has left for the cache.
template <class L, class T, int... I>
TENON_FN typename L::template of<T> load_apart(const T *p, index_t stride, indices<I...>) {
  return typename L::template of<T>{p[I * stride]...};
}
template <class L, class T>
constexpr bool loads_apart = sizeof(T) == 4 && L::width <= 8 && !has_bits<T> && !has_own<L>;
} // namespace detail
#endif

/// Lanes `stride` elements apart; a stride of fixed<1> or fixed<0> costs one load, one of fixed<2>
/// two.
template <class L, class T, class Stride>
TENON_FN typename L::template of<T> load_strided(const T *p, Stride stride,
                                                 index_t count = L::width) {
  if constexpr (L::width == 1)
    return load_element(p);
  else if constexpr (detail::is_same<Stride, fixed<0>>)
    return broadcast<L, compute_t<T>>(load_element(p));
  else if constexpr (detail::is_same<Stride, fixed<1>>)
    return count == L::width ? load<L>(p) : load_partial<L>(p, count);
  else {
#if TENON_SIMD_WIDTH > 1 && (defined(__clang__) || __GNUC__ >= 12)
    if constexpr (detail::is_same<Stride, fixed<2>> && detail::loads_every_other<L, T>)
      if (count == L::width)
        return detail::load_every_other<L>(p, indices_to<L::width>{});
#endif
#if TENON_SIMD_WIDTH > 1 && !defined(__AVX512F__)
    if constexpr (detail::loads_apart<L, T>)
      if (count == L::width)
        return detail::load_apart<L>(p, index_t(stride), indices_to<L::width>{});
#endif
    T lanes[L::width] = {};
    for (index_t i = 0; i < count; ++i)
      lanes[i] = p[i * index_t(stride)];
    return load<L, T>(lanes);
  }
}
template <class L, class T, class Stride>
TENON_FN void store_strided(T *p, Stride stride, typename L::template of<T> v,
                            index_t count = L::width) {
  if constexpr (L::width == 1)
    store_element(p, v);
  else if constexpr (detail::is_same<Stride, fixed<1>>) {
    if (count == L::width)
      store<L>(p, v);
    else
      store_partial<L>(p, v, count);
  } else {
    T lanes[L::width];
    store<L, T>(lanes, v);
    for (index_t i = 0; i < count; ++i)
      p[i * index_t(stride)] = lanes[i];
  }
}

/// Packed elements, one by one.
template <class L, class T, class Stride>
TENON_FN typename L::template of<T> load_strided(packed_pointer<const T> p, Stride stride,
                                                 index_t count = L::width) {
  if constexpr (L::width == 1)
    return load_element(p);
  else {
    uint8_t lanes[L::width] = {};
    for (index_t i = 0; i < count; ++i)
      lanes[i] = detail::load_bits(p + i * index_t(stride));
    return detail::decode<L, T>(load<L, uint8_t>(lanes));
  }
}
template <class L, class T, class Stride>
TENON_FN void store_strided(packed_pointer<T> p, Stride stride, typename L::template of<T> v,
                            index_t count = L::width) {
  if constexpr (L::width == 1)
    store_element(p, v);
  else {
    uint8_t lanes[L::width];
    store<L, uint8_t>(lanes, detail::encode<L, T>(v));
    for (index_t i = 0; i < count; ++i)
      detail::store_bits(p + i * index_t(stride), lanes[i]);
  }
}

} // namespace tenon

#endif
