// Defines how vectors sum products of 8-bit integers, four to each 32-bit lane, exactly:
//
//   four_products   one instruction of machines with VNNI (vpdpbusd): unsigned x times signed w
//   two_products    twice two products of 16-bit integers (vpmaddwd; in plain C++ elsewhere)
//
// on x86-64 without VNNI, for weights that the compiler has looked at:
//
//   short_products  unsigned x times signed w in 16 bits (vpmaddubsw), where the sums of a word, or
//                   of two words, stay there whatever x is
//   sign_products   magnitudes of x times w with the sign of x (vpsignb, vpmaddubsw), where no
//                   weight is -128
//
// and those of aarch64, signed x times signed w, whose sums cpu/neon_sums.h keeps:
//
//   long_products     NEON: two products in 16 bits, which are added to 32 (smull, smlal, sadalp)
//   dot_products      four products a lane (sdot), where the machine has them
//   matrix_products   two rows of eight times two of eight (smmla), where the machine has them
//
// All read weights as they lie, four bytes a lane. VNNI is part of no x86-64 level, nor are sdot
// and smmla of armv8, so `has_four_products` and its like ask the processor, once; the instruction
// is written as such, for a compiler that was told of the level alone would refuse its intrinsic.
//
// What x looks like is up to each: `from_bytes` makes words of `halves` kinds from words of four
// bytes. A sum over four_products then holds (x + offset) * w for `offset` of the type of x, a sum
// over two_products (x - zero) * w.
#ifndef TENON_RUNTIME_COMMON_BYTE_PRODUCTS_H
#define TENON_RUNTIME_COMMON_BYTE_PRODUCTS_H

#include "common/lanes.h"

#if TENON_SIMD_WIDTH >= 8 && defined(__x86_64__)
#include <cpuid.h>
#define TENON_FOUR_PRODUCTS 1
#else
#define TENON_FOUR_PRODUCTS 0
#endif
#if TENON_SIMD_WIDTH > 1 && defined(__x86_64__) && defined(__SSSE3__)
#define TENON_BYTE_PAIRS 1
#else
#define TENON_BYTE_PAIRS 0
#endif
#if TENON_SIMD_WIDTH == 4 && defined(__aarch64__)
#if defined(__linux__)
#include <sys/auxv.h>
#endif
#define TENON_NEON_PRODUCTS 1
#else
#define TENON_NEON_PRODUCTS 0
#endif

namespace tenon {

/// What sums of 8-bit integers have in common: patches that share one reading of the weights stay
/// in the first cache.
struct byte_products {
  using sum = int32_t;
  static constexpr int chunk_bytes = 24 << 10;
  static constexpr bool is_short = false;  // sums go through 16 bits
  static constexpr bool has_signs = false; // one multiply_add of both halves
};

#if TENON_NEON_PRODUCTS
namespace detail {
/// Whether the operating system reports capability `bit` of the word `word` of its vector.
inline bool has_capability([[maybe_unused]] unsigned long word, [[maybe_unused]] int bit) {
#if defined(__linux__)
  return (getauxval(word) >> bit & 1) != 0;
#else
  return false;
#endif
}
} // namespace detail
#if defined(__ARM_FEATURE_DOTPROD)
inline constexpr bool has_dot_products = true;
#else
inline const bool has_dot_products = detail::has_capability(16, 20);    // AT_HWCAP, ASIMDDP
#endif
#if defined(__ARM_FEATURE_MATMUL_INT8)
inline constexpr bool has_matrix_products = true;
#else
inline const bool has_matrix_products = detail::has_capability(26, 13); // AT_HWCAP2, I8MM
#endif

/// What the products of aarch64 have in common.
struct signed_products : byte_products {
  static constexpr int halves = 1;
  template <class T> static constexpr int32_t offset = detail::is_signed<T> ? 0 : -128;
  static constexpr bool subtracts_zero = false;

  template <class L, class T, int Half> static TENON_FN i32<L> from_bytes(i32<L> x, int32_t) {
    return detail::is_signed<T> ? x : x ^ int32_t(0x80808080u);
  }
};
/// Pairs: whether two products stay in 16 bits, as they do unless both weights are -128.
template <bool Pairs> struct long_products : signed_products {};
struct dot_products : signed_products {};
struct matrix_products : signed_products {};
/// Those of depthwise convolutions (cpu/depthwise_neon.h): one tap at a time, in 16 bits.
struct tap_products {};
#endif

#if TENON_FOUR_PRODUCTS
namespace detail {
inline bool detect_four_products() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0)
    return false;
#if TENON_SIMD_WIDTH >= 16
  return (c >> 11 & 1) != 0; // AVX512_VNNI
#else
  return a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a >> 4 & 1) != 0; // AVX-VNNI
#endif
}
} // namespace detail
inline const bool has_four_products = detail::detect_four_products();

struct four_products : byte_products {
  static constexpr int halves = 1;
  /// What from_bytes adds to an x of type T.
  template <class T> static constexpr int32_t offset = detail::is_signed<T> ? 128 : 0;
  static constexpr bool subtracts_zero = false;

  template <class L, class T, int Half> static TENON_FN i32<L> from_bytes(i32<L> x, int32_t) {
    return detail::is_signed<T> ? x ^ int32_t(0x80808080u) : x;
  }
  template <class L, int Half> static TENON_FN i32<L> weights(i32<L> w) { return w; }
  template <class L> static TENON_FN i32<L> multiply_add(i32<L> acc, i32<L> x, i32<L> w) {
    static_assert(L::width == TENON_SIMD_WIDTH, "whole registers");
#if TENON_SIMD_WIDTH >= 16
    __asm__("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(x), "v"(w));
#else
    __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(acc) : "x"(x), "x"(w));
#endif
    return acc;
  }
};
#else
inline constexpr bool has_four_products = false;
#endif

namespace detail {
/// Both 16-bit integers of each lane multiplied with their like, and the products added.
template <class L> TENON_FN i32<L> multiply_pairs(i32<L> a, i32<L> b) {
#if TENON_SIMD_WIDTH > 1 && defined(__x86_64__)
#if defined(__AVX512BW__)
  if constexpr (L::width == 16)
    return (i32<L>)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#endif
#if defined(__AVX2__)
  if constexpr (L::width == 8)
    return (i32<L>)_mm256_madd_epi16((__m256i)a, (__m256i)b);
#endif
  if constexpr (L::width == 4)
    return (i32<L>)_mm_madd_epi16((__m128i)a, (__m128i)b);
#endif
  const auto low = [](i32<L> v) { return convert<i32<L>>(convert<u32<L>>(v) << 16) >> 16; };
  return low(a) * low(b) + (a >> 16) * (b >> 16);
}

/// Byte I of each lane, extended as T is.
template <class L, class T, int I> TENON_FN i32<L> byte_of_lane(i32<L> v) {
  const u32<L> up = convert<u32<L>>(v) << (24 - 8 * I);
  if constexpr (is_signed<T>)
    return convert<i32<L>>(up) >> 24;
  else
    return convert<i32<L>>(up >> 24);
}
} // namespace detail

/// Bytes 0 and 2 of each lane are its even half, 1 and 3 its odd one.
struct two_products : byte_products {
  static constexpr int halves = 2;
  template <class T> static constexpr int32_t offset = 0;
  static constexpr bool subtracts_zero = true;

  template <class L, class T, int Half> static TENON_FN i32<L> from_bytes(i32<L> x, int32_t zero) {
    const i32<L> low = detail::byte_of_lane<L, T, Half>(x) - zero,
                 high = detail::byte_of_lane<L, T, Half + 2>(x) - zero;
    return convert_pair<L>(low, high);
  }
  template <class L, int Half> static TENON_FN i32<L> weights(i32<L> w) {
#if TENON_SIMD_WIDTH > 1
    if constexpr (L::width > 1) {
      using H = typename simd<2 * L::width>::template of<int16_t>;
      const H pairs = (H)w;
      return (i32<L>)(Half == 0 ? (pairs << 8) >> 8 : pairs >> 8);
    } else
#endif
      return from_bytes<L, int8_t, Half>(w, 0);
  }
  template <class L> static TENON_FN i32<L> multiply_add(i32<L> acc, i32<L> x, i32<L> w) {
    return acc + detail::multiply_pairs<L>(x, w);
  }

private:
  template <class L> static TENON_FN i32<L> convert_pair(i32<L> low, i32<L> high) {
    return detail::convert<i32<L>>((detail::convert<u32<L>>(low) & 0xffffu) |
                                   (detail::convert<u32<L>>(high) << 16));
  }
};

#if TENON_BYTE_PAIRS
namespace detail {
/// Products of unsigned bytes of a with signed ones of b, those of neighbours added in 16 bits,
/// where sums that leave them saturate.
template <class L> TENON_FN i32<L> multiply_byte_pairs(i32<L> a, i32<L> b) {
#if defined(__AVX512BW__)
  if constexpr (L::width == 16)
    return (i32<L>)_mm512_maddubs_epi16((__m512i)a, (__m512i)b);
#endif
#if defined(__AVX2__)
  if constexpr (L::width == 8)
    return (i32<L>)_mm256_maddubs_epi16((__m256i)a, (__m256i)b);
#endif
  if constexpr (L::width == 4)
    return (i32<L>)_mm_maddubs_epi16((__m128i)a, (__m128i)b);
}
template <class L> TENON_FN i32<L> add_shorts(i32<L> a, i32<L> b) {
  using H = typename simd<2 * L::width>::template of<int16_t>;
  return (i32<L>)((H)a + (H)b);
}
/// The two 16-bit integers of each lane added.
template <class L> TENON_FN i32<L> add_pairs(i32<L> shorts) {
  return multiply_pairs<L>(shorts, broadcast<L, int32_t>(0x00010001));
}
} // namespace detail

/// Words: how many are added in 16 bits. A filter's sums stay there if those of its positive
/// weights, and those of its negative ones, that meet in a lane's half come to at most 128.
template <int Words> struct short_products : byte_products {
  static constexpr int halves = 1;
  template <class T> static constexpr int32_t offset = detail::is_signed<T> ? 128 : 0;
  static constexpr bool subtracts_zero = false, is_short = true;

  template <class L, class T, int Half> static TENON_FN i32<L> from_bytes(i32<L> x, int32_t) {
    return detail::is_signed<T> ? x ^ int32_t(0x80808080u) : x;
  }
  template <class L, int Half> static TENON_FN i32<L> weights(i32<L> w) { return w; }
  template <class L> static TENON_FN i32<L> multiply_add(i32<L> acc, i32<L> x, i32<L> w) {
    return acc + detail::add_pairs<L>(detail::multiply_byte_pairs<L>(x, w));
  }
};

#if TENON_SIMD_WIDTH <= 8
/// Half 0 of x are its bytes as signed ones, half 1 their magnitudes.
struct sign_products : byte_products {
  static constexpr int halves = 2;
  template <class T> static constexpr int32_t offset = detail::is_signed<T> ? 0 : -128;
  static constexpr bool subtracts_zero = false, has_signs = true;

  template <class L, int Half> static TENON_FN i32<L> weights(i32<L> w) { return w; }
  template <class L, class T, int Half> static TENON_FN i32<L> from_bytes(i32<L> x, int32_t) {
    const u32<L> bytes = detail::convert<u32<L>>(x) ^ (detail::is_signed<T> ? 0u : 0x80808080u);
    if constexpr (Half == 0)
      return detail::convert<i32<L>>(bytes);
    const u32<L> negative = (bytes >> 7) & 0x01010101u, turned = (negative << 8) - negative;
    return detail::convert<i32<L>>((bytes ^ turned) + negative);
  }
  template <class L>
  static TENON_FN i32<L> multiply_add(i32<L> acc, i32<L> x, i32<L> magnitude, i32<L> w) {
    i32<L> turned;
#if defined(__AVX2__)
    if constexpr (L::width == 8)
      turned = (i32<L>)_mm256_sign_epi8((__m256i)w, (__m256i)x);
    else
#endif
      turned = (i32<L>)_mm_sign_epi8((__m128i)w, (__m128i)x);
    return acc + detail::add_pairs<L>(detail::multiply_byte_pairs<L>(magnitude, turned));
  }
};
#endif
#endif

} // namespace tenon

#endif
