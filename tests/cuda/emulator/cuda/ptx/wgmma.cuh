// Stands in for runtime/cuda/ptx/wgmma.cuh: multiplications read shared memory when their group is
// waited for.
#ifndef TENON_RUNTIME_CUDA_PTX_WGMMA_CUH
#define TENON_RUNTIME_CUDA_PTX_WGMMA_CUH

#include "cuda/ptx/mma_fp8.cuh"
#include "cuda/ptx/shared_address.cuh"
#include <type_traits>

namespace tenon {
namespace cuda {
namespace ptx {

struct wgmma_group {
  static void fence() {}
  static void commit() {
    emulator::fiber &f = emulator::machine::instance().current();
    f.products.push_back(std::move(f.open_products));
    f.open_products.clear();
  }
  template <int Pending> static void wait() {
    emulator::fiber &f = emulator::machine::instance().current();
    while (f.products.size() > size_t(Pending)) {
      for (const auto &product : f.products.front())
        product();
      f.products.erase(f.products.begin());
    }
    emulator::machine::instance().sync_warp(); // the lanes of a warp wait together
  }
  template <class T, int Count> static void pin(T (&)[Count]) {}
};

template <int Span> struct wgmma_tile {
  static uint64_t descriptor(const void *tile, int block_bytes = 16, int eight_rows = 8 * Span) {
    return uint64_t(shared_address(tile) >> 4 & 0x3fff) | uint64_t(block_bytes >> 4) << 16 |
           uint64_t(eight_rows >> 4) << 32 |
           uint64_t(Span == 128  ? 1
                    : Span == 64 ? 2
                                 : 3)
               << 62;
  }
  static uint64_t advance(uint64_t descriptor, int bytes) {
    return (descriptor & ~uint64_t(0xffffffff)) | (uint32_t(descriptor) + (unsigned(bytes) >> 4));
  }
};

struct wgmma_cells {
  static uint64_t descriptor(const void *tile, int along_k) {
    if (along_k < 0)
      emulator::machine::fail("a distance backwards in a descriptor");
    return uint64_t(shared_address(tile) >> 4 & 0x3fff) | uint64_t(along_k >> 4) << 16 |
           uint64_t(128 >> 4) << 32;
  }
  static uint64_t advance(uint64_t descriptor, int bytes) {
    return wgmma_tile<32>::advance(descriptor, bytes);
  }
};

/// What is read of an element: of floats, tf32, nothing below the tenth bit of the fraction.
template <class T> compute_t<T> as_multiplied(T value) {
  if constexpr (sizeof(T) == 4) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    bits &= ~0x1fffu;
    memcpy(&value, &bits, 4);
  }
  return load_element(&value);
}

/// An operand in shared memory by its descriptor.
template <class T, bool Transposed> struct emulated_wgmma_operand {
  uint64_t descriptor;

  compute_t<T> at(int row, int k) const {
    const int kind = int(descriptor >> 62), span = kind == 1 ? 128 : kind == 2 ? 64 : 32;
    const int leading = int(descriptor >> 16 & 0x3fff) * 16,
              pattern = int(descriptor >> 32 & 0x3fff) * 16;
    const int start = int(descriptor & 0x3fff) * 16, block = span / int(sizeof(T));
    if (kind == 0) { // cells, K-major
      constexpr int run = 16 / int(sizeof(T));
      const int offset = row / 8 * pattern + row % 8 * 16 + k / run * leading;
      T value;
      memcpy(&value,
             emulator::machine::instance().shared() + start + offset + k % run * int(sizeof(T)),
             sizeof(T));
      return load_element(&value);
    }
    const int offset = Transposed ? row / block * leading + k / 8 * pattern + k % 8 * span +
                                        row % block * int(sizeof(T))
                                  : row / 8 * pattern + row % 8 * span + k * int(sizeof(T));
    T value;
    memcpy(&value,
           emulator::machine::instance().shared() + swizzled(unsigned(start + offset), span),
           sizeof(T));
    return as_multiplied(value);
  }
};

/// A sum and the products of one instruction, as the Tensor Cores leave it. Those of tf32 are exact
/// within the instruction, then cut off.
template <class T, int Count>
float summed(float sum, const float (&x)[Count], const float (&y)[Count]) {
  if constexpr (sizeof(T) == 1) {
    float products[Count];
    for (int i = 0; i < Count; ++i)
      products[i] = x[i] * y[i];
    return sum_fp8(sum, products);
  } else {
    std::conditional_t<sizeof(T) == 4, double, float> wide = sum;
    for (int i = 0; i < Count; ++i)
      wide += decltype(wide)(x[i]) * y[i];
    return emulator::cut(wide);
  }
}

/// Two rows of A times B, whose columns a lane has as the instruction says.
template <class T, int N, class B> struct emulated_wgmma {
  static constexpr int k = 32 / int(sizeof(T));
  struct rows {
    float at[2][k];
  };
  static void multiply(float *sums, const rows &x, const B &right, bool accumulate, int lane) {
    for (int j = 0; j < N / 8; ++j)
      for (int e = 0; e < 2; ++e) {
        float column[k];
        for (int i = 0; i < k; ++i)
          column[i] = right.at(8 * j + 2 * (lane % 4) + e, i);
        for (int half = 0; half < 2; ++half) {
          float &sum = sums[4 * j + 2 * half + e];
          sum = summed<T>(accumulate ? sum : 0, x.at[half], column);
        }
      }
  }
};

template <class T, int N, bool ATransposed = false, bool BTransposed = false> struct wgmma_shared {
  using sum = float;
  static constexpr int m = 64, n = N, k = 32 / int(sizeof(T));
  static void multiply(float (&d)[N / 2], uint64_t a, uint64_t b, bool accumulate) {
    using operand = emulated_wgmma_operand<T, BTransposed>;
    using emulated = emulated_wgmma<T, N, operand>;
    const emulated_wgmma_operand<T, ATransposed> left{a};
    const operand right{b};
    const int warp = thread() % 128 / 32, l = thread() % 32;
    float *sums = d;
    emulator::machine::instance().current().open_products.push_back([=] {
      typename emulated::rows x;
      for (int half = 0; half < 2; ++half)
        for (int i = 0; i < k; ++i)
          x.at[half][i] = left.at(16 * warp + l / 4 + 8 * half, i);
      emulated::multiply(sums, x, right, accumulate, l);
    });
  }
};

/// The fragments are taken when the multiplication is started, from the four lanes of a row.
template <class T, int N, bool BTransposed = false> struct wgmma_registers {
  static constexpr int m = 64, n = N, k = 32 / int(sizeof(T));
  static void multiply(float (&d)[N / 2], const unsigned (&a)[4], uint64_t b, bool accumulate) {
    using operand = emulated_wgmma_operand<T, BTransposed>;
    using emulated = emulated_wgmma<T, N, operand>;
    constexpr int own = 4 / int(sizeof(T)); // elements of a register
    const operand right{b};
    const int l = thread() % 32;
    float *sums = d;
    typename emulated::rows x;
    const unsigned *mine = a;
    emulator::machine::instance().exchange(mine, [&](auto slot) {
      for (int q = 0; q < 4; ++q) {
        const unsigned *fragment = slot(l / 4 * 4 + q);
        for (int i = 0; i < 4; ++i) {
          T elements[own];
          memcpy(elements, &fragment[i], sizeof(elements));
          for (int e = 0; e < own; ++e)
            x.at[i % 2][k / 2 * (i / 2) + own * q + e] = as_multiplied(elements[e]);
        }
      }
    });
    emulator::machine::instance().current().open_products.push_back(
        [=] { emulated::multiply(sums, x, right, accumulate, l); });
  }
};

} // namespace ptx
} // namespace cuda
} // namespace tenon

#endif
