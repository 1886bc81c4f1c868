// Defines `conv_tf32_sm80` and `matmul_tf32_sm80`, contractions of floats on Tensor Cores that
// multiply in tf32, and `conv_tf32x3_sm80` and `matmul_tf32x3_sm80`, which are as exact as fp32 by
// three such products (sm_80 and up). See kernel.cuh and tensor_cores_tf32_sm80.cuh.
#ifndef TENON_RUNTIME_CUDA_CONTRACT_MMA_TF32_CUH
#define TENON_RUNTIME_CUDA_CONTRACT_MMA_TF32_CUH

#include "cuda/contract_mma/kernel.cuh"
#include "cuda/tile/tensor_cores_tf32_sm80.cuh"

namespace tenon {
namespace cuda {

template <class... Arguments> auto conv_tf32_sm80(Arguments... arguments) {
  return conv_mma<tensor_cores_tf32_sm80>(arguments...);
}
template <class... Arguments> auto matmul_tf32_sm80(Arguments... arguments) {
  return matmul_mma<tensor_cores_tf32_sm80>(arguments...);
}
template <class... Arguments> auto conv_tf32x3_sm80(Arguments... arguments) {
  return conv_mma<tensor_cores_tf32x3_sm80>(arguments...);
}
template <class... Arguments> auto matmul_tf32x3_sm80(Arguments... arguments) {
  return matmul_mma<tensor_cores_tf32x3_sm80>(arguments...);
}

} // namespace cuda
} // namespace tenon

#endif
