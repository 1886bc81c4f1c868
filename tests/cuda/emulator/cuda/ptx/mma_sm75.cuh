// Stands in for runtime/cuda/ptx/mma_sm75.cuh.
#ifndef TENON_RUNTIME_CUDA_PTX_MMA_SM75_CUH
#define TENON_RUNTIME_CUDA_PTX_MMA_SM75_CUH

#include "cuda/device.cuh"

namespace tenon {
namespace cuda {
namespace ptx {

struct mma_m16n8k8_f16 {
  static constexpr int m = 16, n = 8, k = 8;
  static void multiply(float (&d)[4], unsigned a0, unsigned a1, unsigned b) {
    struct operands {
      unsigned a[2], b;
    };
    const operands mine = {{a0, a1}, b};
    const int l = thread() % 32;
    emulator::machine::instance().exchange(mine, [&](auto slot) {
      for (int i = 0; i < 4; ++i) {
        const int row = l / 4 + 8 * (i / 2), column = 2 * (l % 4) + i % 2;
        for (int x = 0; x < 8; ++x)
          d[i] += value(slot(row % 8 * 4 + x / 2).a[row / 8], x % 2) *
                  value(slot(column * 4 + x / 2).b, x % 2);
      }
    });
  }
  static void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    multiply(d, a[0], a[1], b0);
    multiply(d, a[2], a[3], b1);
  }

private:
  static float value(unsigned pair, int which) {
    f16 h;
    h.bits = uint16_t(pair >> (16 * which));
    return load_element(&h);
  }
};

} // namespace ptx
} // namespace cuda
} // namespace tenon

#endif
