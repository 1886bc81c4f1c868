// Defines wgmma.mma_async of bytes (sm_90a) with exact 32-bit sums: `wgmma_shared<T, n>` for T
// int8_t and uint8_t. A is 64 x 32 of T, B is 32 x n of int8_t, both K-major in shared memory. Sums
// wrap; they lie in registers as those of floats. See wgmma.cuh.
#ifndef TENON_RUNTIME_CUDA_PTX_WGMMA_INT8_CUH
#define TENON_RUNTIME_CUDA_PTX_WGMMA_INT8_CUH

#include "cuda/ptx/wgmma.cuh"

namespace tenon {
namespace cuda {
namespace ptx {

#define TENON_WGMMA_BYTES(n, types, i0, i1, i2)                                                    \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" i2 ", 0;\n"                                    \
               "wgmma.mma_async.sync.aligned.m64n" #n "k32.s32." types " {" TENON_WGMMA_LIST_##n   \
               "}, %" i0 ", %" i1 ", p;\n}"                                                        \
               : TENON_WGMMA_OUT_##n("+r")                                                         \
               : "l"(a), "l"(b), "r"(int(accumulate)))
#define TENON_WGMMA_BYTES_OF_ANY_WIDTH(types)                                                      \
  if constexpr (N == 16)                                                                           \
    TENON_WGMMA_BYTES(16, types, "8", "9", "10");                                                  \
  else if constexpr (N == 32)                                                                      \
    TENON_WGMMA_BYTES(32, types, "16", "17", "18");                                                \
  else if constexpr (N == 64)                                                                      \
    TENON_WGMMA_BYTES(64, types, "32", "33", "34");                                                \
  else if constexpr (N == 96)                                                                      \
    TENON_WGMMA_BYTES(96, types, "48", "49", "50");                                                \
  else if constexpr (N == 128)                                                                     \
    TENON_WGMMA_BYTES(128, types, "64", "65", "66");                                               \
  else if constexpr (N == 160)                                                                     \
    TENON_WGMMA_BYTES(160, types, "80", "81", "82");                                               \
  else if constexpr (N == 192)                                                                     \
    TENON_WGMMA_BYTES(192, types, "96", "97", "98");                                               \
  else if constexpr (N == 224)                                                                     \
    TENON_WGMMA_BYTES(224, types, "112", "113", "114");                                            \
  else if constexpr (N == 256)                                                                     \
    TENON_WGMMA_BYTES(256, types, "128", "129", "130");

template <int N> struct wgmma_shared<int8_t, N, false, false> {
  using sum = int;
  static constexpr int m = 64, n = N, k = 32;
  static_assert(N == 16 || (N % 32 == 0 && N <= 256), "widths that have a row above");
  TENON_DEVICE static void multiply(int (&d)[N / 2], uint64_t a, uint64_t b, bool accumulate) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    TENON_WGMMA_BYTES_OF_ANY_WIDTH("s8.s8")
#else
    (void)d, (void)a, (void)b, (void)accumulate;
#endif
  }
};
template <int N> struct wgmma_shared<uint8_t, N, false, false> {
  using sum = int;
  static constexpr int m = 64, n = N, k = 32;
  static_assert(N == 16 || (N % 32 == 0 && N <= 256), "widths that have a row above");
  TENON_DEVICE static void multiply(int (&d)[N / 2], uint64_t a, uint64_t b, bool accumulate) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    TENON_WGMMA_BYTES_OF_ANY_WIDTH("u8.s8")
#else
    (void)d, (void)a, (void)b, (void)accumulate;
#endif
  }
};

#undef TENON_WGMMA_BYTES
#undef TENON_WGMMA_BYTES_OF_ANY_WIDTH

} // namespace ptx
} // namespace cuda
} // namespace tenon

#endif
