// Stands in for runtime/cuda/ptx/ldmatrix.cuh.
#ifndef TENON_RUNTIME_CUDA_PTX_LDMATRIX_CUH
#define TENON_RUNTIME_CUDA_PTX_LDMATRIX_CUH

#include "cuda/ptx/cp_async.cuh"
#include "cuda/ptx/shared_address.cuh"

namespace tenon {
namespace cuda {
namespace ptx {

template <int Matrices, bool Transposed> struct emulated_ldmatrix {
  static void load(unsigned (&r)[Matrices], shared_place place) {
    const void *row = place.pointer();
    if (place.address % 16)
      emulator::machine::fail("misaligned ldmatrix row");
    const int l = thread() % 32;
    emulator::machine::instance().exchange(row, [&](auto slot) {
      for (int i = 0; i < Matrices; ++i) {
        uint16_t pair[2];
        for (int j = 0; j < 2; ++j) {
          const int y = Transposed ? 2 * (l % 4) + j : l / 4,
                    x = Transposed ? l / 4 : 2 * (l % 4) + j;
          pair[j] = static_cast<const uint16_t *>(slot(8 * i + y))[x];
        }
        r[i] = unsigned(pair[0]) | unsigned(pair[1]) << 16;
      }
    });
  }
};
using ldmatrix_x2 = emulated_ldmatrix<2, false>;
using ldmatrix_x4 = emulated_ldmatrix<4, false>;
using ldmatrix_x4_transposed = emulated_ldmatrix<4, true>;

} // namespace ptx
} // namespace cuda
} // namespace tenon

#endif
