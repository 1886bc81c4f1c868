// Stands in for runtime/cuda/ptx/mma_fp8.cuh. Sums lose what the machine's lose (sum_fp8).
#ifndef TENON_RUNTIME_CUDA_PTX_MMA_FP8_CUH
#define TENON_RUNTIME_CUDA_PTX_MMA_FP8_CUH

#include "cuda/device.cuh"
#include <algorithm>
#include <cmath>

namespace tenon {
namespace cuda {
namespace ptx {

/// What the Tensor Cores make of a sum and of products of floats of 8 bits: each of them is cut off
/// 13 bits below the leading bit of the largest.
template <int Count> float sum_fp8(float sum, const float (&products)[Count]) {
  float largest = std::fabs(sum);
  for (float p : products)
    largest = std::max(largest, std::fabs(p));
  if (!(largest > 0 && std::isfinite(largest))) {
    for (float p : products)
      sum += p;
    return sum;
  }
  const int unit = std::ilogb(largest) - 13;
  const float units = std::ldexp(1.0f, -unit);
  int total = int(sum * units);
  for (float p : products)
    total += int(p * units);
  return std::ldexp(float(total), unit);
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
      return load_element(&value);
    };
    emulator::machine::instance().exchange(mine, [&](auto slot) {
      for (int i = 0; i < 4; ++i) {
        const int row = l / 4 + 8 * (i / 2), column = 2 * (l % 4) + i % 2;
        float products[32];
        for (int x = 0; x < 32; ++x) {
          const int half = x % 16;
          products[x] = element(slot(row % 8 * 4 + half / 4).a[row / 8 + 2 * (x / 16)], half % 4) *
                        element(slot(column * 4 + half / 4).b[x / 16], half % 4);
        }
        d[i] = sum_fp8(d[i], products);
      }
    });
  }
};

} // namespace ptx
} // namespace cuda
} // namespace tenon

#endif
