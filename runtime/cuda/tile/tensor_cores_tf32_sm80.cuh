// Defines `tensor_cores_tf32_sm80` and `tensor_cores_tf32x3_sm80`: multiplications of floats on the
// Tensor Cores of sm_80 and up; see tensor_cores.cuh.
//
//   tf32     operands are rounded to 11 bits of significand, to nearest
//   tf32x3   operands are split in two such parts (tf32.cuh); A * B = small * big + big * small +
//            big * big, the product of the small parts being too small to matter
//
// Tensor Cores cut what they add off where fp32 rounds. tf32x3 therefore keeps their sums short:
// every 16 elements along K they begin at zero, the small products first, and the result is added
// to the fp32 sum in a register, with what was cut off on the average. Where an operand is
// infinite, or rounds to infinity (beyond 3.4e38), tf32x3 gives NaN.
#ifndef TENON_RUNTIME_CUDA_TILE_TENSOR_CORES_TF32_SM80_CUH
#define TENON_RUNTIME_CUDA_TILE_TENSOR_CORES_TF32_SM80_CUH

#include "cuda/ptx/mma_sm80.cuh"
#include "cuda/tile/tensor_cores.cuh"
#include "cuda/tile/tf32.cuh"

namespace tenon {
namespace cuda {

struct tensor_cores_tf32_sm80 {
  using sum = float;
  template <class Stored> using element = float;
  template <class A, class B> using element_of_a = float;
  static constexpr int steps = 1;
  static constexpr bool as_loaded = false;
  template <int Count> struct fragment {
    unsigned r[Count];
    TENON_DEVICE void set(int i, unsigned bits) { r[i] = rounded_to_tf32(bits); }
  };

  TENON_FN static constexpr bool runs_on(target t) { return t.arch >= 800; }
  template <class T>
  TENON_DEVICE static void multiply(float (&d)[4], const fragment<4> &a, const fragment<2> &b) {
    ptx::mma_m16n8k8_tf32::multiply(d, a.r, b.r[0], b.r[1]);
  }
};

struct tensor_cores_tf32x3_sm80 {
  using sum = float;
  template <class Stored> using element = float;
  template <class A, class B> using element_of_a = float;
  static constexpr int steps = 2;
  static constexpr bool as_loaded = false;
  template <int Count> struct fragment {
    unsigned big[Count], small[Count];
    TENON_DEVICE void set(int i, unsigned bits) {
      const tf32_pair p(bits);
      big[i] = p.big;
      small[i] = p.small;
    }
  };

  TENON_FN static constexpr bool runs_on(target t) { return t.arch >= 800; }
  template <class T>
  TENON_DEVICE static void multiply(float (&d)[4], const fragment<4 * steps> &a,
                                    const fragment<2 * steps> &b) {
    using mma = ptx::mma_m16n8k8_tf32;
    using registers = const unsigned(&)[4];
    float sum[4];
    mma::product(sum, reinterpret_cast<registers>(a.small[0]), b.big[0], b.big[1]);
    mma::multiply(sum, reinterpret_cast<registers>(a.big[0]), b.small[0], b.small[1]);
    TENON_UNROLL
    for (int s = 1; s < steps; ++s) {
      mma::multiply(sum, reinterpret_cast<registers>(a.small[4 * s]), b.big[2 * s],
                    b.big[2 * s + 1]);
      mma::multiply(sum, reinterpret_cast<registers>(a.big[4 * s]), b.small[2 * s],
                    b.small[2 * s + 1]);
    }
    TENON_UNROLL
    for (int s = 0; s < steps; ++s)
      mma::multiply(sum, reinterpret_cast<registers>(a.big[4 * s]), b.big[2 * s], b.big[2 * s + 1]);
    TENON_UNROLL
    for (int i = 0; i < 4; ++i)
      d[i] += with_lost_part<8 * steps>(sum[i]);
  }
};

} // namespace cuda
} // namespace tenon

#endif
