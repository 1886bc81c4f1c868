// Defines mma.sync of f8e4m3 with sums of floats, D = A * B + D: m16n8k32 (sm_89 and up). Operands
// and sums lie as those of bytes (ptx/mma_int8.cuh). Sums have fewer bits than fp32
// (tile/tensor_cores_fp8.cuh).
#ifndef TENON_RUNTIME_CUDA_PTX_MMA_FP8_CUH
#define TENON_RUNTIME_CUDA_PTX_MMA_FP8_CUH

#include "cuda/device.cuh"

namespace tenon {
namespace cuda {
namespace ptx {

struct mma_m16n8k32_f8e4m3 {
  static constexpr int m = 16, n = 8, k = 32;
  TENON_DEVICE static void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0,
                                    unsigned b1) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
    asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0,%1,%2,%3}, "
                 "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
    (void)d, (void)a, (void)b0, (void)b1;
#endif
  }
};

} // namespace ptx
} // namespace cuda
} // namespace tenon

#endif
