// Defines mma.sync of bytes with exact 32-bit sums, D = A * B + D: m16n8k32 (sm_80 and up) and
// m8n8k16 (sm_75 and up). A holds bytes of type T, int8_t or uint8_t, B signed ones. Sums wrap.
//
//   A (16x32)  a[0]: row l/4,     k 4*(l%4) + {0...3}  a[1]: row l/4 + 8, same k
//              a[2]: row l/4,     k + 16               a[3]: row l/4 + 8, k + 16
//   B (32x8)   b[0]: column l/4,  k 4*(l%4) + {0...3}  b[1]: k + 16
//   D (16x8)   d[0..1]: row l/4,  columns 2*(l%4) + {0,1}    d[2..3]: row l/4 + 8
// for lane l of the warp. m8n8k16 has a[0], b[0] and d[0..1] of these.
#ifndef TENON_RUNTIME_CUDA_PTX_MMA_INT8_CUH
#define TENON_RUNTIME_CUDA_PTX_MMA_INT8_CUH

#include "cuda/device.cuh"

namespace tenon {
namespace cuda {
namespace ptx {

template <class T> struct mma_m16n8k32_int8 {
  static constexpr int m = 16, n = 8, k = 32;
  static_assert(sizeof(T) == 1, "bytes");
  TENON_DEVICE static void multiply(int (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    if constexpr (T(-1) < T(0))
      asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, "
                   "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                   : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    else
      asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, "
                   "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                   : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
    (void)d, (void)a, (void)b0, (void)b1;
#endif
  }
};

template <class T> struct mma_m8n8k16_int8 {
  static constexpr int m = 8, n = 8, k = 16;
  static_assert(sizeof(T) == 1, "bytes");
  TENON_DEVICE static void multiply(int &d0, int &d1, unsigned a, unsigned b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 750
    if constexpr (T(-1) < T(0))
      asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};"
                   : "+r"(d0), "+r"(d1)
                   : "r"(a), "r"(b));
    else
      asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.u8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};"
                   : "+r"(d0), "+r"(d1)
                   : "r"(a), "r"(b));
#else
    (void)d0, (void)d1, (void)a, (void)b;
#endif
  }
};

} // namespace ptx
} // namespace cuda
} // namespace tenon

#endif
