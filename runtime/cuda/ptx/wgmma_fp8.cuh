// Defines wgmma.mma_async of f8e4m3 (sm_90a) with sums of floats: `wgmma_shared<f8e4m3, n>`. A is
// 64 x 32, B is 32 x n, both K-major in shared memory. Sums have fewer bits than fp32
// (tile/tensor_cores_fp8.cuh). See wgmma.cuh.
#ifndef TENON_RUNTIME_CUDA_PTX_WGMMA_FP8_CUH
#define TENON_RUNTIME_CUDA_PTX_WGMMA_FP8_CUH

#include "cuda/ptx/wgmma.cuh"

namespace tenon {
namespace cuda {
namespace ptx {

#define TENON_WGMMA_FP8(n, i0, i1, i2)                                                             \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" i2 ", 0;\n"                                    \
               "wgmma.mma_async.sync.aligned.m64n" #n "k32.f32.e4m3.e4m3 {" TENON_WGMMA_LIST_##n   \
               "}, %" i0 ", %" i1 ", p, 1, 1;\n}"                                                  \
               : TENON_WGMMA_OUT_##n("+f")                                                         \
               : "l"(a), "l"(b), "r"(int(accumulate)))

template <int N> struct wgmma_shared<f8e4m3, N, false, false> {
  using sum = float;
  static constexpr int m = 64, n = N, k = 32;
  static_assert(N == 16 || (N % 32 == 0 && N <= 256), "widths that have a row below");
  TENON_DEVICE static void multiply(float (&d)[N / 2], uint64_t a, uint64_t b, bool accumulate) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    if constexpr (N == 16)
      TENON_WGMMA_FP8(16, "8", "9", "10");
    else if constexpr (N == 32)
      TENON_WGMMA_FP8(32, "16", "17", "18");
    else if constexpr (N == 64)
      TENON_WGMMA_FP8(64, "32", "33", "34");
    else if constexpr (N == 96)
      TENON_WGMMA_FP8(96, "48", "49", "50");
    else if constexpr (N == 128)
      TENON_WGMMA_FP8(128, "64", "65", "66");
    else if constexpr (N == 160)
      TENON_WGMMA_FP8(160, "80", "81", "82");
    else if constexpr (N == 192)
      TENON_WGMMA_FP8(192, "96", "97", "98");
    else if constexpr (N == 224)
      TENON_WGMMA_FP8(224, "112", "113", "114");
    else if constexpr (N == 256)
      TENON_WGMMA_FP8(256, "128", "129", "130");
#else
    (void)d, (void)a, (void)b, (void)accumulate;
#endif
  }
};

#undef TENON_WGMMA_FP8

} // namespace ptx
} // namespace cuda
} // namespace tenon

#endif
