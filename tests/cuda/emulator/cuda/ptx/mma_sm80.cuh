// Stands in for runtime/cuda/ptx/mma_sm80.cuh.
#ifndef TENON_RUNTIME_CUDA_PTX_MMA_SM80_CUH
#define TENON_RUNTIME_CUDA_PTX_MMA_SM80_CUH

#include "cuda/device.cuh"

namespace tenon {
namespace cuda {
namespace ptx {

template <class T> struct emulated_mma_m16n8k16 {
  static constexpr int m = 16, n = 8, k = 16;
  static void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    struct operands {
      unsigned a[4], b[2];
    };
    const operands mine = {{a[0], a[1], a[2], a[3]}, {b0, b1}};
    const int l = thread() % 32;
    emulator::machine::instance().exchange(mine, [&](auto slot) {
      for (int i = 0; i < 4; ++i) {
        const int row = l / 4 + 8 * (i / 2), column = 2 * (l % 4) + i % 2;
        for (int x = 0; x < 16; ++x) {
          const int half = x % 8;
          const unsigned aa = slot(row % 8 * 4 + half / 2).a[row / 8 + 2 * (x / 8)];
          const unsigned bb = slot(column * 4 + half / 2).b[x / 8];
          d[i] += value(aa, half % 2) * value(bb, half % 2);
        }
      }
    });
  }
  static void sum(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1,
                  const float (&c)[4]) {
    float all[4] = {c[0], c[1], c[2], c[3]};
    multiply(all, a, b0, b1);
    memcpy(d, all, sizeof(all));
  }

private:
  static float value(unsigned pair, int which) {
    T h;
    h.bits = uint16_t(pair >> (16 * which));
    return load_element(&h);
  }
};

using mma_m16n8k16_f16 = emulated_mma_m16n8k16<f16>;
using mma_m16n8k16_bf16 = emulated_mma_m16n8k16<bf16>;

/// Products are exact and their sum is cut once a step.
struct mma_m16n8k8_tf32 {
  static constexpr int m = 16, n = 8, k = 8;
  static void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    struct operands {
      unsigned a[4], b[2];
    };
    const operands mine = {{a[0], a[1], a[2], a[3]}, {b0, b1}};
    const int l = thread() % 32;
    emulator::machine::instance().exchange(mine, [&](auto slot) {
      for (int i = 0; i < 4; ++i) {
        const int row = l / 4 + 8 * (i / 2), column = 2 * (l % 4) + i % 2;
        double sum = double(d[i]);
        for (int x = 0; x < 8; ++x)
          sum += value(slot(row % 8 * 4 + x % 4).a[row / 8 + 2 * (x / 4)]) *
                 value(slot(column * 4 + x % 4).b[x / 4]);
        d[i] = emulator::cut(sum);
      }
    });
  }
  static void product(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    for (float &e : d)
      e = 0;
    multiply(d, a, b0, b1);
  }

private:
  static double value(unsigned bits) {
    return double(tenon::detail::bitcast<float>(bits & 0xffffe000u));
  }
};

} // namespace ptx
} // namespace cuda
} // namespace tenon

#endif
