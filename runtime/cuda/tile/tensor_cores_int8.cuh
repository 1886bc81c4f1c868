// Defines `tensor_cores_int8_sm75` and `tensor_cores_int8_sm80`: multiplications of bytes with
// exact 32-bit sums on the Tensor Cores of sm_75, and of sm_80 and up; see tensor_cores.cuh. A may
// be signed or not, B is signed.
#ifndef TENON_RUNTIME_CUDA_TILE_TENSOR_CORES_INT8_CUH
#define TENON_RUNTIME_CUDA_TILE_TENSOR_CORES_INT8_CUH

#include "cuda/ptx/mma_int8.cuh"
#include "cuda/tile/tensor_cores.cuh"

namespace tenon {
namespace cuda {

struct tensor_cores_int8_sm75 : cores_of_bytes<int> {
  TENON_FN static constexpr bool runs_on(target t) { return t.arch >= 750; }
  template <class T>
  TENON_DEVICE static void multiply(int (&d)[4], const fragment<4> &a, const fragment<2> &b) {
    using mma = ptx::mma_m8n8k16_int8<T>;
    mma::multiply(d[0], d[1], a.r[0], b.r[0]);
    mma::multiply(d[2], d[3], a.r[1], b.r[0]);
    mma::multiply(d[0], d[1], a.r[2], b.r[1]);
    mma::multiply(d[2], d[3], a.r[3], b.r[1]);
  }
};

struct tensor_cores_int8_sm80 : cores_of_bytes<int> {
  TENON_FN static constexpr bool runs_on(target t) { return t.arch >= 800; }
  template <class T>
  TENON_DEVICE static void multiply(int (&d)[4], const fragment<4> &a, const fragment<2> &b) {
    ptx::mma_m16n8k32_int8<T>::multiply(d, a.r, b.r[0], b.r[1]);
  }
};

} // namespace cuda
} // namespace tenon

#endif
