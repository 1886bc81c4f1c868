// Defines lookup: the entry of a table of 256 that belongs to each byte, for any lanes L.
//
// Sixteen bytes at once take two permutations of table halves (AVX-512 VBMI). That is part of no
// x86-64 level, so `has_byte_permutations` asks the processor, once, and the instruction is written
// as such; elsewhere entries are loaded one by one.
#ifndef TENON_RUNTIME_COMMON_LOOKUP_H
#define TENON_RUNTIME_COMMON_LOOKUP_H

#include "common/lanes.h"

#if TENON_SIMD_WIDTH >= 16 && defined(__x86_64__)
#include <cpuid.h>
#define TENON_BYTE_PERMUTATIONS 1
#else
#define TENON_BYTE_PERMUTATIONS 0
#endif

namespace tenon {

#if TENON_BYTE_PERMUTATIONS
namespace detail {
inline bool detect_byte_permutations() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (c >> 1 & 1) != 0; // AVX512_VBMI
}

/// 128 bytes, by the lower 7 bits of each of `at`.
TENON_FN __m128i permute_bytes(__m128i at, const void *half) {
  __m512i bytes = _mm512_castsi128_si512(at);
  const __m512i first = _mm512_loadu_si512(half);
  const __m512i second = _mm512_loadu_si512(static_cast<const char *>(half) + 64);
  __asm__("vpermi2b %2, %1, %0" : "+v"(bytes) : "v"(first), "v"(second));
  return _mm512_castsi512_si128(bytes);
}
} // namespace detail
inline const bool has_byte_permutations = detail::detect_byte_permutations();
#endif

/// x: lanes of int8_t or uint8_t, whose bits count.
template <class L, class T, class V>
TENON_FN typename L::template of<T> lookup(V x, const T (&table)[256]) {
  using namespace detail;
  if constexpr (has_own<L>) {
    return L::lookup(x, table);
  } else if constexpr (is_vector<V>) {
#if TENON_BYTE_PERMUTATIONS
    if constexpr (L::width == 16 && sizeof(T) == 1)
      if (has_byte_permutations) {
        const __m128i at = (__m128i)x, low = permute_bytes(at, table),
                      high = permute_bytes(at, table + 128);
        return (typename L::template of<T>)_mm_mask_blend_epi8(_mm_movepi8_mask(at), low, high);
      }
#endif
    uint8_t at[L::width];
    T entries[L::width];
    __builtin_memcpy(at, &x, sizeof(at));
    for (int i = 0; i < L::width; ++i)
      entries[i] = table[at[i]];
    return load<L>(entries);
  } else {
    return table[uint8_t(x)];
  }
}

} // namespace tenon

#endif
