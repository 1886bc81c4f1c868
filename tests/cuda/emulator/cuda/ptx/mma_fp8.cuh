// Stands in for runtime/cuda/ptx/mma_fp8.cuh. Sums lose what the machine's may lose (cut_fp8).
#ifndef TENON_RUNTIME_CUDA_PTX_MMA_FP8_CUH
#define TENON_RUNTIME_CUDA_PTX_MMA_FP8_CUH

#include "cuda/device.cuh"

namespace tenon {
namespace cuda {
namespace ptx {

/// A sum of floats of 8 bits as it leaves the Tensor Cores: 13 bits of significand, the rest cut
/// off.
inline float cut_fp8(double sum) {
  float value = float(sum);
  uint32_t bits;
  memcpy(&bits, &value, 4);
  bits &= ~0x3ffu;
  memcpy(&value, &bits, 4);
  return value;
}

struct mma_m16n8k32_f8e4m3 {
  static constexpr int m = 16, n = 8, k = 32;
  static void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    struct operands {
      unsigned a[4], b[2];
    };
    const operands mine = {{a[0], a[1], a[2], a[3]}, {b0, b1}};
    const int l = thread() % 32;
    const auto element = [](unsigned word, int which) {
      const f8e4m3 value{uint8_t(word >> (8 * which))};
      return double(load_element(&value));
    };
    emulator::machine::instance().exchange(mine, [&](auto slot) {
      for (int i = 0; i < 4; ++i) {
        const int row = l / 4 + 8 * (i / 2), column = 2 * (l % 4) + i % 2;
        double sum = d[i];
        for (int x = 0; x < 32; ++x) {
          const int half = x % 16;
          sum += element(slot(row % 8 * 4 + half / 4).a[row / 8 + 2 * (x / 16)], half % 4) *
                 element(slot(column * 4 + half / 4).b[x / 16], half % 4);
        }
        d[i] = cut_fp8(sum);
      }
    });
  }
};

} // namespace ptx
} // namespace cuda
} // namespace tenon

#endif
