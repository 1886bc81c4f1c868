// Defines dp4a (sm_61 and up): c plus the products of four pairs of bytes. The second factors are
// signed.
#ifndef TENON_RUNTIME_CUDA_PTX_DP4A_CUH
#define TENON_RUNTIME_CUDA_PTX_DP4A_CUH

#include "cuda/device.cuh"

namespace tenon {
namespace cuda {
namespace ptx {

/// A is the type of the first factors: int8_t or uint8_t. Sums wrap.
template <class A> struct dp4a {
  TENON_DEVICE static int multiply(unsigned a, unsigned b, int c) {
    static_assert(sizeof(A) == 1, "bytes");
#if defined(__CUDA_ARCH__)
    int d;
    if constexpr (A(-1) < A(0))
      asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    else
      asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
#else
    for (int i = 0; i < 32; i += 8)
      c += int(A(a >> i)) * int(int8_t(b >> i));
    return c;
#endif
  }
};

} // namespace ptx
} // namespace cuda
} // namespace tenon

#endif
