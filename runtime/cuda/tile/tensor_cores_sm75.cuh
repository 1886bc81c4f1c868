// Defines `tensor_cores_sm75`: multiplications of fp16 on the Tensor Cores of sm_75 and up.
// `multiply` adds A * B of 16 x 8 x 16 to D; the operands lie as for mma.sync m16n8k16
// (ptx/mma_sm80.cuh).
#ifndef TENON_RUNTIME_CUDA_TILE_TENSOR_CORES_SM75_CUH
#define TENON_RUNTIME_CUDA_TILE_TENSOR_CORES_SM75_CUH

#include "cuda/ptx/mma_sm75.cuh"
#include "cuda/tile/tensor_cores.cuh"

namespace tenon {
namespace cuda {

struct tensor_cores_sm75 : cores_of_halves {
  TENON_FN static constexpr bool runs_on(target t) { return t.arch >= 750; }
  template <class T>
  TENON_DEVICE static void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0,
                                    unsigned b1) {
    static_assert(detail::is_same<T, f16>, "these cores multiply fp16");
    ptx::mma_m16n8k8_f16::multiply(d, a, b0, b1);
  }
  template <class T>
  TENON_DEVICE static void multiply(float (&d)[4], const fragment<4> &a, const fragment<2> &b) {
    multiply<T>(d, a.r, b.r[0], b.r[1]);
  }
};

} // namespace cuda
} // namespace tenon

#endif
