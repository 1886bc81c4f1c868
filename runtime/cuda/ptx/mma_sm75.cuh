// Defines mma.sync m16n8k8, fp16 operands and fp32 accumulators (sm_75 and up): D = A * B + D.
//
//   A (16x8)  a0: row l/4,     k 2*(l%4) + {0,1}    a1: row l/4 + 8, same k
//   B (8x8)   b: column l/4,   k 2*(l%4) + {0,1}
//   D (16x8)  d[0..1]: row l/4,  columns 2*(l%4) + {0,1}    d[2..3]: row l/4 + 8
// for lane l of the warp.
#ifndef TENON_RUNTIME_CUDA_PTX_MMA_SM75_CUH
#define TENON_RUNTIME_CUDA_PTX_MMA_SM75_CUH

#include "cuda/device.cuh"

namespace tenon {
namespace cuda {
namespace ptx {

struct mma_m16n8k8_f16 {
  static constexpr int m = 16, n = 8, k = 8;
  TENON_DEVICE static void multiply(float (&d)[4], unsigned a0, unsigned a1, unsigned b) {
#if defined(__CUDA_ARCH__)
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, "
                 "{%4,%5}, {%6}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a0), "r"(a1), "r"(b));
#else
    (void)d, (void)a0, (void)a1, (void)b;
#endif
  }
  /// Two of them one behind the other: D += A * B of 16 x 8 x 16, operands as of m16n8k16.
  TENON_DEVICE static void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0,
                                    unsigned b1) {
#if defined(__CUDA_ARCH__)
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, "
                 "{%4,%5}, {%8}, {%0,%1,%2,%3};\n"
                 "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, "
                 "{%6,%7}, {%9}, {%0,%1,%2,%3};"
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
