// Stands in for runtime/cuda/ptx/stmatrix.cuh.
#ifndef TENON_RUNTIME_CUDA_PTX_STMATRIX_CUH
#define TENON_RUNTIME_CUDA_PTX_STMATRIX_CUH

#include "cuda/ptx/shared_address.cuh"

namespace tenon {
namespace cuda {
namespace ptx {

struct stmatrix_x4 {
  static void store(shared_place place, const unsigned (&r)[4]) {
    struct given {
      unsigned char *row;
      unsigned pairs[4];
    };
    if (place.address % 16)
      emulator::machine::fail("misaligned stmatrix row");
    const given mine = {static_cast<unsigned char *>(place.pointer()), {r[0], r[1], r[2], r[3]}};
    const int l = thread() % 32;
    emulator::machine::instance().exchange(mine, [&](auto slot) {
      for (int i = 0; i < 4; ++i)
        memcpy(slot(8 * i + l / 4).row + 4 * (l % 4), &mine.pairs[i], 4);
    });
  }
};

} // namespace ptx
} // namespace cuda
} // namespace tenon

#endif
