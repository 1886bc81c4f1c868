// Defines `tensor_cores_sm80`: multiplications of fp16 and bf16 on the Tensor Cores of sm_80 and
// up. `multiply` adds A * B of 16 x 8 x 16 to D; the operands lie as for mma.sync m16n8k16
// (ptx/mma_sm80.cuh).
#ifndef TENON_RUNTIME_CUDA_TILE_TENSOR_CORES_SM80_CUH
#define TENON_RUNTIME_CUDA_TILE_TENSOR_CORES_SM80_CUH

#include "cuda/ptx/mma_sm80.cuh"
#include "cuda/tile/tensor_cores.cuh"

namespace tenon {
namespace cuda {

struct tensor_cores_sm80 : cores_of_halves {
  TENON_FN static constexpr bool runs_on(target t) { return t.arch >= 800; }
  template <class T>
  TENON_DEVICE static void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0,
                                    unsigned b1) {
    if constexpr (detail::is_same<T, bf16>)
      ptx::mma_m16n8k16_bf16::multiply(d, a, b0, b1);
    else
      ptx::mma_m16n8k16_f16::multiply(d, a, b0, b1);
  }
  template <class T>
  TENON_DEVICE static void multiply(float (&d)[4], const fragment<4> &a, const fragment<2> &b) {
    multiply<T>(d, a.r, b.r[0], b.r[1]);
  }
};

} // namespace cuda
} // namespace tenon

#endif
