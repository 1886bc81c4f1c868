// Defines wgmma.mma_async of bytes (sm_90a) with exact 32-bit sums: `wgmma_shared<T, n>` for T
// int8_t and uint8_t. A is 64 x 32 of T, B is 32 x n of int8_t, both K-major in shared memory. Sums
// wrap; they lie in registers as those of floats. See wgmma.cuh.
#ifndef TENON_RUNTIME_CUDA_PTX_WGMMA_INT8_CUH
#define TENON_RUNTIME_CUDA_PTX_WGMMA_INT8_CUH

#include "cuda/ptx/wgmma.cuh"

namespace tenon {
namespace cuda {
namespace ptx {

#define TENON_WGMMA_BYTES(n, i0, i1, i2, i3, i4, i5, i6, types)                                    \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" i2 ", 0;\n"                                    \
               "wgmma.mma_async.sync.aligned.m64n" #n "k32.s32." types " {" TENON_WGMMA_LIST_##n   \
               "}, %" i0 ", %" i1 ", p;\n}"                                                        \
               : TENON_WGMMA_OUT_##n("+r")                                                         \
               : "l"(a), "l"(b), "r"(int(accumulate)))

template <int N> struct wgmma_shared<int8_t, N, false, false> {
  using sum = int;
  static constexpr int m = 64, n = N, k = 32;
  static_assert(N == 16 || (N % 32 == 0 && N <= 256), "widths that TENON_WGMMA_OF_N has");
  TENON_DEVICE static void multiply(int (&d)[N / 2], uint64_t a, uint64_t b, bool accumulate) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    TENON_WGMMA_OF_N(TENON_WGMMA_BYTES, "s8.s8")
#else
    (void)d, (void)a, (void)b, (void)accumulate;
#endif
  }
};
template <int N> struct wgmma_shared<uint8_t, N, false, false> {
  using sum = int;
  static constexpr int m = 64, n = N, k = 32;
  static_assert(N == 16 || (N % 32 == 0 && N <= 256), "widths that TENON_WGMMA_OF_N has");
  TENON_DEVICE static void multiply(int (&d)[N / 2], uint64_t a, uint64_t b, bool accumulate) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    TENON_WGMMA_OF_N(TENON_WGMMA_BYTES, "u8.s8")
#else
    (void)d, (void)a, (void)b, (void)accumulate;
#endif
  }
};

#undef TENON_WGMMA_BYTES

} // namespace ptx
} // namespace cuda
} // namespace tenon

#endif
