// Defines `conv_int8_sm75`, `conv_int8_sm80`, `matmul_int8_sm75` and `matmul_int8_sm80`:
// contractions of bytes with exact 32-bit sums on Tensor Cores, by mma.sync m8n8k16 (sm_75) and
// m16n8k32 (sm_80 and up). See kernel.cuh.
//
// x is int8_t or uint8_t, weights are k_major_weights of int8_t. Config may have `x_zero`, the zero
// point of x (static, known to the compiler): sums are of (x - x_zero) * w, and padding contributes
// nothing. What lies beyond the border is x_zero, and x_zero times the sum of each filter, which
// the kernel computes beside the products, is taken from the sums.
#ifndef TENON_RUNTIME_CUDA_CONTRACT_MMA_INT8_CUH
#define TENON_RUNTIME_CUDA_CONTRACT_MMA_INT8_CUH

#include "cuda/contract_mma/kernel.cuh"
#include "cuda/tile/tensor_cores_int8.cuh"

namespace tenon {
namespace cuda {

template <class... Arguments> auto conv_int8_sm75(Arguments... arguments) {
  return conv_mma<tensor_cores_int8_sm75>(arguments...);
}
template <class... Arguments> auto matmul_int8_sm75(Arguments... arguments) {
  return matmul_mma<tensor_cores_int8_sm75>(arguments...);
}
template <class... Arguments> auto conv_int8_sm80(Arguments... arguments) {
  return conv_mma<tensor_cores_int8_sm80>(arguments...);
}
template <class... Arguments> auto matmul_int8_sm80(Arguments... arguments) {
  return matmul_mma<tensor_cores_int8_sm80>(arguments...);
}

} // namespace cuda
} // namespace tenon

#endif
