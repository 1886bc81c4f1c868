// Defines ldmatrix (sm_75 and up): a warp loads four 8x8 matrices of 16-bit elements, or two, from
// shared memory. Lane l gives the address of row l % 8 of matrix l / 8 and receives, of each
// matrix, the elements (l / 4, 2 * (l % 4)) and (l / 4, 2 * (l % 4) + 1); transposed, the same of
// its transpose.
#ifndef TENON_RUNTIME_CUDA_PTX_LDMATRIX_CUH
#define TENON_RUNTIME_CUDA_PTX_LDMATRIX_CUH

#include "cuda/ptx/cp_async.cuh"

namespace tenon {
namespace cuda {
namespace ptx {

struct ldmatrix_x4 {
  TENON_DEVICE static void load(unsigned (&r)[4], shared_place row) {
#if defined(__CUDA_ARCH__)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(row.address)
                 : "memory");
#else
    (void)r, (void)row;
#endif
  }
};

/// Two: lanes from 16 on give no address.
struct ldmatrix_x2 {
  TENON_DEVICE static void load(unsigned (&r)[2], shared_place row) {
#if defined(__CUDA_ARCH__)
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(row.address)
                 : "memory");
#else
    (void)r, (void)row;
#endif
  }
};

struct ldmatrix_x4_transposed {
  TENON_DEVICE static void load(unsigned (&r)[4], shared_place row) {
#if defined(__CUDA_ARCH__)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(row.address)
                 : "memory");
#else
    (void)r, (void)row;
#endif
  }
};

} // namespace ptx
} // namespace cuda
} // namespace tenon

#endif
