// Defines the rounding of two floats to a pair of 16-bit floats in one register (cvt.rn of f16x2
// and bf16x2, sm_80 and up), half to even. The first lies in the low half.
#ifndef TENON_RUNTIME_CUDA_PTX_ROUND_PAIR_CUH
#define TENON_RUNTIME_CUDA_PTX_ROUND_PAIR_CUH

#include "common/lanes.h"
#include "cuda/device.cuh"

namespace tenon {
namespace cuda {
namespace ptx {

template <class T> struct round_pair {
  static_assert(sizeof(T) == 2, "f16 or bf16");
  TENON_DEVICE static unsigned of(float low, float high) {
    unsigned pair;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    if constexpr (detail::is_same<T, bf16>)
      asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    else
      asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
#else
    T both[2];
    store_element(&both[0], low);
    store_element(&both[1], high);
    memcpy(&pair, static_cast<const void *>(both), sizeof(pair));
#endif
    return pair;
  }
};

} // namespace ptx
} // namespace cuda
} // namespace tenon

#endif
