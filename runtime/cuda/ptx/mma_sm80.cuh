// Defines mma.sync with fp32 accumulators (sm_80 and up), D = A * B + D: m16n8k16 of fp16 or bf16
// operands, m16n8k8 of tf32.
//
//   A (16x16)  a[0]: row l/4,     k 2*(l%4) + {0,1}    a[1]: row l/4 + 8, same k
//              a[2]: row l/4,     k + 8                a[3]: row l/4 + 8, k + 8
//   B (16x8)   b[0]: column l/4,  k 2*(l%4) + {0,1}    b[1]: k + 8
//   D (16x8)   d[0..1]: row l/4,  columns 2*(l%4) + {0,1}    d[2..3]: row l/4 + 8
// for lane l of the warp. tf32 operands are floats, one in place of each pair (k l%4, and k + 4 in
// place of k + 8), of which the low 13 bits are not read.
#ifndef TENON_RUNTIME_CUDA_PTX_MMA_SM80_CUH
#define TENON_RUNTIME_CUDA_PTX_MMA_SM80_CUH

#include "cuda/device.cuh"

namespace tenon {
namespace cuda {
namespace ptx {

struct mma_m16n8k16_f16 {
  static constexpr int m = 16, n = 8, k = 16;
  TENON_DEVICE static void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0,
                                    unsigned b1) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, "
                 "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
    (void)d, (void)a, (void)b0, (void)b1;
#endif
  }
  /// D = A * B + C. Unlike multiply, it is moved among others, so that their latencies overlap.
  TENON_DEVICE static void sum(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1,
                               const float (&c)[4]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, "
        "{%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(c[0]), "f"(c[1]),
          "f"(c[2]), "f"(c[3]));
#else
    (void)d, (void)a, (void)b0, (void)b1, (void)c;
#endif
  }
};

struct mma_m16n8k16_bf16 {
  static constexpr int m = 16, n = 8, k = 16;
  TENON_DEVICE static void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0,
                                    unsigned b1) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, "
                 "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
    (void)d, (void)a, (void)b0, (void)b1;
#endif
  }
  /// D = A * B + C. Unlike multiply, it is moved among others, so that their latencies overlap.
  TENON_DEVICE static void sum(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1,
                               const float (&c)[4]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, "
        "{%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(c[0]), "f"(c[1]),
          "f"(c[2]), "f"(c[3]));
#else
    (void)d, (void)a, (void)b0, (void)b1, (void)c;
#endif
  }
};

struct mma_m16n8k8_tf32 {
  static constexpr int m = 16, n = 8, k = 8;
  TENON_DEVICE static void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0,
                                    unsigned b1) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, "
                 "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
    (void)d, (void)a, (void)b0, (void)b1;
#endif
  }
  /// D = A * B.
  TENON_DEVICE static void product(float (&d)[4], const unsigned (&a)[4], unsigned b0,
                                   unsigned b1) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, "
                 "{%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
                 : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(0.0f));
#else
    (void)d, (void)a, (void)b0, (void)b1;
#endif
  }
};

} // namespace ptx
} // namespace cuda
} // namespace tenon

#endif
