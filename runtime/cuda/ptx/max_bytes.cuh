// Defines `byte_maxima`: the largest bytes of words, place by place, by maxima of pairs of 16-bit
// integers (max.u16x2 and max.s16x2, sm_90 and up).
#ifndef TENON_RUNTIME_CUDA_PTX_MAX_BYTES_CUH
#define TENON_RUNTIME_CUDA_PTX_MAX_BYTES_CUH

#include "common/lanes.h"
#include "cuda/device.cuh"

namespace tenon {
namespace cuda {
namespace ptx {

/// Bytes at odd places are the upper ones of halves as they lie, those at even places after a
/// shift. What stands below an upper byte decides between equal ones alone.
template <class T> struct byte_maxima {
  static_assert(sizeof(T) == 1, "bytes");
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
  static constexpr bool pays = false;
#else
  static constexpr bool pays = true;
#endif
  static constexpr unsigned lowest = tenon::detail::is_signed<T> ? 0x80008000u : 0;
  unsigned even = lowest, odd = lowest;

  TENON_DEVICE void take(unsigned word) {
    even = larger(even, word << 8);
    odd = larger(odd, word);
  }
  TENON_DEVICE unsigned word() const { return (even >> 8 & 0x00ff00ffu) | (odd & 0xff00ff00u); }

private:
  TENON_DEVICE static unsigned larger(unsigned a, unsigned b) {
    unsigned r;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    if constexpr (tenon::detail::is_signed<T>)
      asm("max.s16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
    else
      asm("max.u16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
#else
    using half =
        typename tenon::detail::choose_type<tenon::detail::is_signed<T>, int16_t, uint16_t>::type;
    const half low = half(half(a) > half(b) ? a : b),
               high = half(half(a >> 16) > half(b >> 16) ? a >> 16 : b >> 16);
    r = unsigned(uint16_t(low)) | unsigned(uint16_t(high)) << 16;
#endif
    return r;
  }
};

} // namespace ptx
} // namespace cuda
} // namespace tenon

#endif
