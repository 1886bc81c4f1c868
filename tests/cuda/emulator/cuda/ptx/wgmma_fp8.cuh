// Stands in for runtime/cuda/ptx/wgmma_fp8.cuh.
#ifndef TENON_RUNTIME_CUDA_PTX_WGMMA_FP8_CUH
#define TENON_RUNTIME_CUDA_PTX_WGMMA_FP8_CUH

#include "cuda/ptx/mma_fp8.cuh"
#include "cuda/ptx/wgmma.cuh"

namespace tenon {
namespace cuda {
namespace ptx {

template <int N> struct wgmma_shared<f8e4m3, N, false, false> {
  using sum = float;
  static constexpr int m = 64, n = N, k = 32;
  static void multiply(float (&d)[N / 2], uint64_t a, uint64_t b, bool accumulate) {
    const emulated_wgmma_operand<f8e4m3, false> left{a}, right{b};
    const int warp = thread() % 128 / 32, l = thread() % 32;
    float *sums = d;
    emulator::machine::instance().current().open_products.push_back([=] {
      for (int e = 0; e < N / 2; ++e) {
        const int row = 16 * warp + l / 4 + e % 4 / 2 * 8, column = e / 4 * 8 + 2 * (l % 4) + e % 2;
        double total = accumulate ? sums[e] : 0;
        for (int i = 0; i < k; ++i)
          total += double(left.at(row, i)) * right.at(column, i);
        sums[e] = cut_fp8(total);
      }
    });
  }
};

} // namespace ptx
} // namespace cuda
} // namespace tenon

#endif
