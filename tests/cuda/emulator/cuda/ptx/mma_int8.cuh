// Stands in for runtime/cuda/ptx/mma_int8.cuh.
#ifndef TENON_RUNTIME_CUDA_PTX_MMA_INT8_CUH
#define TENON_RUNTIME_CUDA_PTX_MMA_INT8_CUH

#include "cuda/device.cuh"

namespace tenon {
namespace cuda {
namespace ptx {

namespace detail {
template <class T> int byte_of(unsigned word, int which) { return int(T(word >> (8 * which))); }
} // namespace detail

template <class T> struct mma_m16n8k32_int8 {
  static constexpr int m = 16, n = 8, k = 32;
  static void multiply(int (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    struct operands {
      unsigned a[4], b[2];
    };
    const operands mine = {{a[0], a[1], a[2], a[3]}, {b0, b1}};
    const int l = thread() % 32;
    emulator::machine::instance().exchange(mine, [&](auto slot) {
      for (int i = 0; i < 4; ++i) {
        const int row = l / 4 + 8 * (i / 2), column = 2 * (l % 4) + i % 2;
        for (int x = 0; x < 32; ++x) {
          const int half = x % 16;
          d[i] +=
              detail::byte_of<T>(slot(row % 8 * 4 + half / 4).a[row / 8 + 2 * (x / 16)], half % 4) *
              detail::byte_of<int8_t>(slot(column * 4 + half / 4).b[x / 16], half % 4);
        }
      }
    });
  }
};

template <class T> struct mma_m8n8k16_int8 {
  static constexpr int m = 8, n = 8, k = 16;
  static void multiply(int &d0, int &d1, unsigned a, unsigned b) {
    struct operands {
      unsigned a, b;
    };
    const operands mine = {a, b};
    const int l = thread() % 32;
    emulator::machine::instance().exchange(mine, [&](auto slot) {
      for (int i = 0; i < 2; ++i) {
        int &d = i == 0 ? d0 : d1;
        const int column = 2 * (l % 4) + i;
        for (int x = 0; x < 16; ++x)
          d += detail::byte_of<T>(slot(l / 4 * 4 + x / 4).a, x % 4) *
               detail::byte_of<int8_t>(slot(column * 4 + x / 4).b, x % 4);
      }
    });
  }
};

} // namespace ptx
} // namespace cuda
} // namespace tenon

#endif
