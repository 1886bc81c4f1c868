// Defines pairs: two 16-bit integers in one register, for sums of products of 8-bit integers.
//
//   widen_even, widen_odd   bytes 0 and 2, or 1 and 3, of a word as a pair, plus another pair
//   multiply_add            a + the sum of the products of two pairs
//   multiply_add_halves     a + the product of one half of either
//
// One instruction each on ARM cores with the DSP extension (SXTAB16, UXTAB16, SMLAD, SMLABB);
// elsewhere the same in plain C++. They are volatile so that they stay in order: g++'s scheduler
// would move loads ahead until registers run out.
#ifndef TENON_RUNTIME_COMMON_PAIRS_H
#define TENON_RUNTIME_COMMON_PAIRS_H

#include "common/base.h"
#include <string.h>

#if defined(__ARM_FEATURE_DSP) && defined(__GNUC__) && !defined(__aarch64__)
#define TENON_DSP 1
#else
#define TENON_DSP 0
#endif

namespace tenon {

namespace detail {
/// The bytes of a word with the first one lowest in memory.
TENON_FN uint32_t lowest_first(uint32_t w) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  w = w >> 24 | (w >> 8 & 0xff00u) | (w << 8 & 0xff0000u) | w << 24;
#endif
  return w;
}
} // namespace detail

/// Four bytes from any address, the first one lowest.
TENON_FN uint32_t load_word(const void *p) {
  uint32_t w;
#if defined(__GNUC__) // freestanding compilers call memcpy as a function
  __builtin_memcpy(&w, p, sizeof(w));
#else
  memcpy(&w, p, sizeof(w));
#endif
  return detail::lowest_first(w);
}
/// The same bytes to any address.
TENON_FN void store_word(void *p, uint32_t w) {
  w = detail::lowest_first(w);
#if defined(__GNUC__)
  __builtin_memcpy(p, &w, sizeof(w));
#else
  memcpy(p, &w, sizeof(w));
#endif
}

/// Words Offset and Offset + 1 of an array that is aligned to 8 bytes.
template <int Offset>
TENON_FN void load_words(const uint32_t *p, uint32_t &first, uint32_t &second) {
#if TENON_DSP // one instruction, which compilers do not find in a loop
  struct words {
    uint32_t word[2];
  };
  static_assert(Offset * 4 < 1024, "LDRD reaches 1020 bytes");
  const words &at = *reinterpret_cast<const words *>(p + Offset);
  __asm__ volatile("ldrd %0, %1, [%2, %3]"
                   : "=&r"(first), "=r"(second)
                   : "r"(p), "i"(Offset * 4), "m"(at));
#else
  first = p[Offset];
  second = p[Offset + 1];
#endif
}

TENON_FN uint32_t make_pair16(int32_t low, int32_t high) {
  return (uint32_t(low) & 0xffffu) | uint32_t(high) << 16;
}
TENON_FN int32_t low16(uint32_t pair) { return int16_t(uint16_t(pair)); }
TENON_FN int32_t high16(uint32_t pair) { return int16_t(uint16_t(pair >> 16)); }

/// Bytes of type T (int8_t or uint8_t).
template <class T> struct widen;

#if TENON_DSP
#define TENON_WIDEN(TYPE, INSTRUCTION, ALONE)                                                      \
  template <> struct widen<TYPE> {                                                                 \
    static TENON_FN uint32_t even(uint32_t bytes) {                                                \
      uint32_t pair;                                                                               \
      __asm__ volatile(ALONE " %0, %1" : "=r"(pair) : "r"(bytes));                                 \
      return pair;                                                                                 \
    }                                                                                              \
    static TENON_FN uint32_t odd(uint32_t bytes) {                                                 \
      uint32_t pair;                                                                               \
      __asm__ volatile(ALONE " %0, %1, ror #8" : "=r"(pair) : "r"(bytes));                         \
      return pair;                                                                                 \
    }                                                                                              \
    static TENON_FN uint32_t even(uint32_t plus, uint32_t bytes) {                                 \
      uint32_t pair;                                                                               \
      __asm__ volatile(INSTRUCTION " %0, %1, %2" : "=r"(pair) : "r"(plus), "r"(bytes));            \
      return pair;                                                                                 \
    }                                                                                              \
    static TENON_FN uint32_t odd(uint32_t plus, uint32_t bytes) {                                  \
      uint32_t pair;                                                                               \
      __asm__ volatile(INSTRUCTION " %0, %1, %2, ror #8" : "=r"(pair) : "r"(plus), "r"(bytes));    \
      return pair;                                                                                 \
    }                                                                                              \
  }
TENON_WIDEN(int8_t, "sxtab16", "sxtb16");
TENON_WIDEN(uint8_t, "uxtab16", "uxtb16");
#undef TENON_WIDEN

TENON_FN int32_t multiply_add(int32_t a, uint32_t x, uint32_t y) {
  int32_t sum;
  __asm__ volatile("smlad %0, %1, %2, %3" : "=r"(sum) : "r"(x), "r"(y), "r"(a));
  return sum;
}
/// HighX, HighY: whether the upper half counts.
template <bool HighX, bool HighY>
TENON_FN int32_t multiply_add_halves(int32_t a, uint32_t x, uint32_t y) {
  int32_t sum;
  if constexpr (HighX && HighY)
    __asm__ volatile("smlatt %0, %1, %2, %3" : "=r"(sum) : "r"(x), "r"(y), "r"(a));
  else if constexpr (HighX)
    __asm__ volatile("smlatb %0, %1, %2, %3" : "=r"(sum) : "r"(x), "r"(y), "r"(a));
  else if constexpr (HighY)
    __asm__ volatile("smlabt %0, %1, %2, %3" : "=r"(sum) : "r"(x), "r"(y), "r"(a));
  else
    __asm__ volatile("smlabb %0, %1, %2, %3" : "=r"(sum) : "r"(x), "r"(y), "r"(a));
  return sum;
}
#else
template <class T> struct widen {
  static TENON_FN uint32_t even(uint32_t bytes) { return even(0, bytes); }
  static TENON_FN uint32_t odd(uint32_t bytes) { return odd(0, bytes); }
  static TENON_FN uint32_t even(uint32_t plus, uint32_t bytes) {
    return make_pair16(low16(plus) + T(uint8_t(bytes)), high16(plus) + T(uint8_t(bytes >> 16)));
  }
  static TENON_FN uint32_t odd(uint32_t plus, uint32_t bytes) { return even(plus, bytes >> 8); }
};
TENON_FN int32_t multiply_add(int32_t a, uint32_t x, uint32_t y) {
  return int32_t(uint32_t(a) + uint32_t(low16(x) * low16(y)) + uint32_t(high16(x) * high16(y)));
}
template <bool HighX, bool HighY>
TENON_FN int32_t multiply_add_halves(int32_t a, uint32_t x, uint32_t y) {
  return int32_t(uint32_t(a) +
                 uint32_t((HighX ? high16(x) : low16(x)) * (HighY ? high16(y) : low16(y))));
}
#endif

/// The two pairs of four weights.
TENON_FN uint32_t widen_even(uint32_t bytes) { return widen<int8_t>::even(bytes); }
TENON_FN uint32_t widen_odd(uint32_t bytes) { return widen<int8_t>::odd(bytes); }

} // namespace tenon

#endif
