// Defines stmatrix (sm_90 and up): a warp stores four 8x8 matrices of 16-bit elements to shared
// memory. Lane l gives the address of row l % 8 of matrix l / 8 and, of each matrix, the elements
// (l / 4, 2 * (l % 4)) and (l / 4, 2 * (l % 4) + 1).
#ifndef TENON_RUNTIME_CUDA_PTX_STMATRIX_CUH
#define TENON_RUNTIME_CUDA_PTX_STMATRIX_CUH

#include "cuda/ptx/shared_address.cuh"

namespace tenon {
namespace cuda {
namespace ptx {

struct stmatrix_x4 {
  TENON_DEVICE static void store(shared_place row, const unsigned (&r)[4]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile(
        "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row.address),
        "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
        : "memory");
#else
    (void)row, (void)r;
#endif
  }
};

} // namespace ptx
} // namespace cuda
} // namespace tenon

#endif
