// Stands in for runtime/cuda/ptx/wgmma_int8.cuh.
#ifndef TENON_RUNTIME_CUDA_PTX_WGMMA_INT8_CUH
#define TENON_RUNTIME_CUDA_PTX_WGMMA_INT8_CUH

#include "cuda/ptx/wgmma.cuh"

namespace tenon {
namespace cuda {
namespace ptx {

/// A of T times B of int8_t; sums wrap.
template <class T, int N> struct emulated_wgmma_int8 {
  using sum = int;
  static constexpr int m = 64, n = N, k = 32;
  static void multiply(int (&d)[N / 2], uint64_t a, uint64_t b, bool accumulate) {
    const emulated_wgmma_operand<T, false> left{a};
    const emulated_wgmma_operand<int8_t, false> right{b};
    const int warp = thread() % 128 / 32, l = thread() % 32;
    int *sums = d;
    emulator::machine::instance().current().open_products.push_back([=] {
      for (int e = 0; e < N / 2; ++e) {
        const int row = 16 * warp + l / 4 + e % 4 / 2 * 8, column = e / 4 * 8 + 2 * (l % 4) + e % 2;
        unsigned total = accumulate ? unsigned(sums[e]) : 0;
        for (int i = 0; i < k; ++i)
          total += unsigned(left.at(row, i) * right.at(column, i));
        sums[e] = int(total);
      }
    });
  }
};
template <int N> struct wgmma_shared<int8_t, N, false, false> : emulated_wgmma_int8<int8_t, N> {};
template <int N> struct wgmma_shared<uint8_t, N, false, false> : emulated_wgmma_int8<uint8_t, N> {};

} // namespace ptx
} // namespace cuda
} // namespace tenon

#endif
