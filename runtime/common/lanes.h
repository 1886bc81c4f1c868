// Defines how many elements a body computes at once, and how they come from and go to memory.
//
//   scalar_lanes   one element: plain C++ types. The only choice on CUDA and for cpu:generic.
//   simd<N>        N elements in GCC vector extensions (g++ and clang), any element type.
//
// `L::of<T>` is the value type for element type T. Booleans are `bool` or, in simd<N>, an int32
// mask of 0 / -1 per lane. Floats below f32 have no values of their own: they load as f32; integers
// below a byte load as 8-bit ones.
//
// TENON_SIMD_WIDTH is the number of f32 in a machine register (16, 8, 4, or 1 for plain ISO C++).
#ifndef TENON_RUNTIME_COMMON_LANES_H
#define TENON_RUNTIME_COMMON_LANES_H

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
template <class... Ts> constexpr int widest() {
  int bytes = 0;
  const int sizes[] = {int(sizeof(Ts))..., 0};
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

#if TENON_SIMD_WIDTH > 1 && defined(__AVX2__)
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

// --- One element ---------------------------------------------------------------------------------

template <class T> TENON_FN compute_t<T> load_element(const T *p) {
#if defined(__CUDACC__)
  if constexpr (detail::is_same<T, f16>)
    return __half2float(*p);
  else if constexpr (detail::is_same<T, bf16>)
    return __bfloat162float(*p);
  else if constexpr (detail::has_bits<T>)
    return detail::decode<scalar_lanes, T>(p->bits);
  else
    return *p;
#else
  if constexpr (detail::has_bits<T>)
    return detail::decode<scalar_lanes, T>(p->bits);
  else
    return *p;
#endif
}
template <class T> TENON_FN compute_t<T> load_element(packed_pointer<T> p) {
  return detail::decode<scalar_lanes, detail::bare<T>>(detail::load_bits(p));
}

template <class T> TENON_FN void store_element(T *p, compute_t<T> x) {
#if defined(__CUDACC__)
  if constexpr (detail::is_same<T, f16>)
    *p = __float2half_rn(x);
  else if constexpr (detail::is_same<T, bf16>)
    *p = __float2bfloat16_rn(x);
  else if constexpr (detail::has_bits<T>)
    p->bits = detail::encode<scalar_lanes, T>(x);
  else
    *p = x;
#else
  if constexpr (detail::has_bits<T>)
    p->bits = detail::encode<scalar_lanes, T>(x);
  else
    *p = x;
#endif
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
#endif
      if constexpr (L::width > 1) {
    const auto x = detail::encode<L, T>(v);
    memcpy(p, &x, size_t(count) * sizeof(T));
  } else
#endif
      if (count > 0)
    store_element(p, v);
}

/// Lanes `stride` elements apart; a stride of fixed<1> or fixed<0> costs one load.
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
