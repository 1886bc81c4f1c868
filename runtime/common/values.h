// Defines the values that bodies compute with, one element or several at once:
//
//   scalar_lanes   one element: plain C++ types. The only choice on CUDA and for cpu:generic.
//   simd<N>        N elements in GCC vector extensions (g++ and clang), any element type.
//
// `L::of<T>` is the value type for element type T. Booleans are `bool` or, in simd<N>, an int32
// mask of 0 / -1 per lane. Floats below f32 have no values of their own: they load as f32; integers
// below a byte load as 8-bit ones.
//
// TENON_SIMD_WIDTH is the number of f32 in a machine register (16, 8, 4, or 1 for plain ISO C++).
#ifndef TENON_RUNTIME_COMMON_VALUES_H
#define TENON_RUNTIME_COMMON_VALUES_H

#include "common/float16.h"
#include "common/minifloat.h"
#include <string.h>

// Vectors pass between functions here, but all of those are inlined: no calling convention is
// involved.
#if defined(__GNUC__) && !defined(__CUDACC__)
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

#if !defined(TENON_SIMD_WIDTH)
#if defined(__CUDACC__) || !defined(__GNUC__)
#define TENON_SIMD_WIDTH 1
#elif defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) &&                    \
    defined(__AVX512VL__)
#define TENON_SIMD_WIDTH 16
#elif defined(__AVX2__)
#define TENON_SIMD_WIDTH 8
#elif defined(__SSE2__) || defined(__ARM_NEON)
#define TENON_SIMD_WIDTH 4
#else
#define TENON_SIMD_WIDTH 1
#endif
#endif

#if TENON_SIMD_WIDTH > 1 && defined(__x86_64__)
#include <immintrin.h>
#elif TENON_SIMD_WIDTH > 1 && defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace tenon {

namespace detail {
template <class A, class B> struct same { static constexpr bool value = false; };
template <class A> struct same<A, A> { static constexpr bool value = true; };
template <class T> struct no_const { using type = T; };
template <class T> struct no_const<const T> { using type = T; };
template <class T> struct no_ref { using type = T; };
template <class T> struct no_ref<T &> { using type = T; };
template <class T> struct no_ref<T &&> { using type = T; };
template <class T> using bare = typename no_const<typename no_ref<T>::type>::type;
template <class A, class B> inline constexpr bool is_same = same<A, B>::value;
template <bool First, class A, class B> struct choose_type { using type = A; };
template <class A, class B> struct choose_type<false, A, B> { using type = B; };

/// What an element of storage type T is computed in.
template <class T> struct computed { using type = T; };
template <> struct computed<f16> { using type = float; };
template <> struct computed<bf16> { using type = float; };
template <> struct computed<f8e4m3> { using type = float; };
template <> struct computed<f8e4m3fnuz> { using type = float; };
template <> struct computed<f8e5m2> { using type = float; };
template <> struct computed<f8e5m2fnuz> { using type = float; };
template <> struct computed<f8e8m0> { using type = float; };
template <> struct computed<f4e2m1> { using type = float; };
template <> struct computed<int4_t> { using type = int8_t; };
template <> struct computed<uint4_t> { using type = uint8_t; };
template <> struct computed<int2_t> { using type = int8_t; };
template <> struct computed<uint2_t> { using type = uint8_t; };

/// The integer type that holds 0 / -1 beside an element of S bytes.
template <int S> struct mask_int;
template <> struct mask_int<1> { using type = int8_t; };
template <> struct mask_int<2> { using type = int16_t; };
template <> struct mask_int<4> { using type = int32_t; };
template <> struct mask_int<8> { using type = int64_t; };
} // namespace detail

template <class T> using compute_t = typename detail::computed<detail::bare<T>>::type;

/// One element at a time.
struct scalar_lanes {
  static constexpr int width = 1;
  template <class T> using of = compute_t<T>;
};

#if TENON_SIMD_WIDTH > 1
namespace detail {
template <class T, int N> struct vector_of {
  typedef T type __attribute__((vector_size(N * sizeof(T))));
};
template <int N> struct vector_of<bool, N> { using type = typename vector_of<int32_t, N>::type; };
} // namespace detail

/// N elements at a time.
template <int N> struct simd {
  static constexpr int width = N;
  template <class T> using of = typename detail::vector_of<compute_t<T>, N>::type;
};
using native_lanes = simd<TENON_SIMD_WIDTH>;
#else
using native_lanes = scalar_lanes;
#endif

/// Lanes of values that are stored in 16 bits: div, reciprocal, exp and sigmoid may err by 2^-16 of
/// their result there, erf by 2^-15, which storing hides. CUDA has short forms for that (documented
/// bounds: 2 units in the last place for a quotient, 2 + 1.173 |x| for e^x); elsewhere nothing
/// changes.
template <class L> struct narrowed : L {};
namespace detail {
template <class L> constexpr bool is_narrow = false;
template <class L> constexpr bool is_narrow<narrowed<L>> = true;
#if defined(__CUDA_ARCH__)
constexpr bool has_narrow_functions = true;
#else
constexpr bool has_narrow_functions = false;
#endif
/// Whether f<L> of a V may be an approximation.
template <class L, class V>
constexpr bool approximates = has_narrow_functions &&is_narrow<L> &&is_same<bare<V>, float>;
} // namespace detail

namespace detail {
template <int Bytes> struct lanes_of_bytes { using type = native_lanes; };
#if TENON_SIMD_WIDTH > 1
template <> struct lanes_of_bytes<8> { using type = simd<TENON_SIMD_WIDTH / 2>; };
#endif
template <> struct lanes_of_bytes<16> { using type = scalar_lanes; }; // text, complex numbers
/// What an element counts for in the choice of lanes; those that no vector holds as much as text.
template <class T> constexpr int lane_bytes = int(sizeof(T));
template <class... Ts> constexpr int widest() {
  int bytes = 0;
  const int sizes[] = {lane_bytes<Ts>..., 0};
  for (int size : sizes)
    bytes = size > bytes ? size : bytes;
  return bytes;
}
} // namespace detail

/// The lanes for work on elements of types Ts: as many of the widest as fill a register, so that no
/// value spans two (g++ notes an ABI change where one does).
template <class... Ts>
using lanes_for = typename detail::lanes_of_bytes<detail::widest<Ts...>()>::type;

template <class L> using f32 = typename L::template of<float>;
template <class L> using f64 = typename L::template of<double>;
template <class L> using i8 = typename L::template of<int8_t>;
template <class L> using u8 = typename L::template of<uint8_t>;
template <class L> using i16 = typename L::template of<int16_t>;
template <class L> using u16 = typename L::template of<uint16_t>;
template <class L> using i32 = typename L::template of<int32_t>;
template <class L> using u32 = typename L::template of<uint32_t>;
template <class L> using i64 = typename L::template of<int64_t>;
template <class L> using u64 = typename L::template of<uint64_t>;
template <class L> using b1 = typename L::template of<bool>;

namespace detail {
/// Lanes that bring loads, stores, broadcast and casts of their own (common/quads.h).
template <class L, class = void> inline constexpr bool has_own = false;
template <class L> inline constexpr bool has_own<L, decltype(void(L::own))> = L::own;

/// Element type and lane count of a value: float has 1 lane of float, a 64-byte vector 16.
template <class V> struct lane_traits {
  using element = V;
  static constexpr int count = 1;
  static constexpr bool is_vector = false;
};
#if TENON_SIMD_WIDTH > 1
template <class V, class = void> struct indexed { static constexpr bool value = false; };
template <class V> struct indexed<V, decltype(void(V{}[0]))> {
  static constexpr bool value = true;
};
template <class V, bool> struct vector_traits : lane_traits<V> {};
template <class V> struct vector_traits<V, true> {
  using element = bare<decltype(V{}[0])>;
  static constexpr int count = int(sizeof(V) / sizeof(element));
  static constexpr bool is_vector = true;
};
template <class V> using traits = vector_traits<V, indexed<V>::value>;
#else
template <class V> using traits = lane_traits<V>;
#endif
template <class V> using element_t = typename traits<V>::element;
template <class V> inline constexpr bool is_vector = traits<V>::is_vector;
template <class T> inline constexpr bool is_float = is_same<T, float> || is_same<T, double>;
template <class T> inline constexpr bool is_signed = T(-1) < T(0);

#if TENON_SIMD_WIDTH > 1 && (defined(__AVX2__) || defined(__aarch64__))
/// Whether N integers of FromBytes become N of ToBytes.
template <class To, class From, int N, int ToBytes, int FromBytes> constexpr bool converts() {
  using A = element_t<From>;
  using B = element_t<To>;
  return traits<To>::count == N && sizeof(A) == FromBytes && sizeof(B) == ToBytes && !is_float<A> &&
         !is_float<B>;
}
#endif

/// Lane-wise conversion as C++ converts (no saturation).
template <class To, class From> TENON_FN To convert(From x) {
#if TENON_SIMD_WIDTH > 1
  if constexpr (is_vector<To>) {
#if defined(__AVX2__) // between bytes and words g++ 12 goes element by element
#if defined(__AVX512F__)
    if constexpr (converts<To, From, 16, 4, 1>()) {
      const __m128i v = (__m128i)x;
      return (To)(is_signed<element_t<From>> ? _mm512_maskz_cvtepi8_epi32((__mmask16)-1, v)
                                             : _mm512_maskz_cvtepu8_epi32((__mmask16)-1, v));
    } else
#endif
        if constexpr (converts<To, From, 8, 4, 1>()) {
      long long bytes;
      __builtin_memcpy(&bytes, &x, sizeof(bytes));
      const __m128i v = _mm_cvtsi64_si128(bytes);
      return (To)(is_signed<element_t<From>> ? _mm256_cvtepi8_epi32(v) : _mm256_cvtepu8_epi32(v));
    } else if constexpr (converts<To, From, 8, 1, 4>()) {
      const __m256i lowest = _mm256_set1_epi32(0x0c080400);
      const __m256i halves = _mm256_shuffle_epi8((__m256i)x, lowest);
      const long long bytes = _mm_cvtsi128_si64(
          _mm_unpacklo_epi32(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1)));
      To y;
      __builtin_memcpy(&y, &bytes, sizeof(y));
      return y;
    } else
#elif defined(__aarch64__) // likewise
    if constexpr (converts<To, From, 4, 4, 1>()) {
      int32_t bytes;
      __builtin_memcpy(&bytes, &x, sizeof(bytes));
      const int8x8_t v = vreinterpret_s8_s32(vdup_n_s32(bytes));
      if constexpr (is_signed<element_t<From>>)
        return (To)vmovl_s16(vget_low_s16(vmovl_s8(v)));
      else
        return (To)vmovl_u16(vget_low_u16(vmovl_u8(vreinterpret_u8_s8(v))));
    } else if constexpr (converts<To, From, 4, 1, 4>()) {
      const int16x4_t halves = vmovn_s32((int32x4_t)x);
      const int32_t bytes =
          vget_lane_s32(vreinterpret_s32_s8(vmovn_s16(vcombine_s16(halves, halves))), 0);
      To y;
      __builtin_memcpy(&y, &bytes, sizeof(y));
      return y;
    } else
#endif
      return __builtin_convertvector(x, To);
  } else
#endif
    return To(x);
}

/// Reinterprets the bits of a value of the same size.
template <class To, class From> TENON_FN To bitcast(From x) {
  static_assert(sizeof(To) == sizeof(From), "bitcast keeps the size");
#if TENON_SIMD_WIDTH > 1
  if constexpr (is_vector<To>) {
    return (To)x;
  } else
#endif
  {
    To y;
#if defined(__GNUC__) && !defined(__CUDACC__)
    __builtin_memcpy(&y, &x, sizeof(y)); // of memcpy, -ffreestanding would leave a call
#else
    memcpy(&y, &x, sizeof(y));
#endif
    return y;
  }
}

/// mask ? a : b for a mask of L and values of any element type.
template <class L, class V> TENON_FN V choose(b1<L> mask, V a, V b) {
#if TENON_SIMD_WIDTH > 1
  if constexpr (is_vector<V>) {
    using I = typename L::template of<typename mask_int<int(sizeof(element_t<V>))>::type>;
    return convert<I>(mask) ? a : b;
  } else
#endif
    return mask ? a : b;
}
} // namespace detail

} // namespace tenon

#endif
