// Defines the larger of two pairs of 16-bit floats in registers, element by element (max.NaN of
// f16x2 and bf16x2, sm_80 and up); NaN wins.
#ifndef TENON_RUNTIME_CUDA_PTX_MAX_PAIR_CUH
#define TENON_RUNTIME_CUDA_PTX_MAX_PAIR_CUH

#include "common/lanes.h"
#include "common/scalar_arith.h"
#include "cuda/device.cuh"

namespace tenon {
namespace cuda {
namespace ptx {

template <class T> struct max_pair {
  static_assert(sizeof(T) == 2, "f16 or bf16");
  TENON_DEVICE static unsigned of(unsigned a, unsigned b) {
    unsigned pair;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    if constexpr (detail::is_same<T, bf16>)
      asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(pair) : "r"(a), "r"(b));
    else
      asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(pair) : "r"(a), "r"(b));
#else
    T x[2], y[2];
    memcpy(static_cast<void *>(x), &a, sizeof(a));
    memcpy(static_cast<void *>(y), &b, sizeof(b));
    for (int i = 0; i < 2; ++i)
      store_element(&x[i], max<scalar_lanes>(load_element(&x[i]), load_element(&y[i])));
    memcpy(&pair, static_cast<const void *>(x), sizeof(pair));
#endif
    return pair;
  }
};

} // namespace ptx
} // namespace cuda
} // namespace tenon

#endif
