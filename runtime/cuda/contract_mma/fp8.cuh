// Defines `conv_fp8_sm89` and `matmul_fp8_sm89`: contractions of f8e4m3 with fp32 sums on Tensor
// Cores, by mma.sync m16n8k32 (sm_89 and up). See kernel.cuh. x is f8e4m3, weights are
// k_major_weights of it. How sums keep what fp32 keeps is in tile/tensor_cores_fp8.cuh.
#ifndef TENON_RUNTIME_CUDA_CONTRACT_MMA_FP8_CUH
#define TENON_RUNTIME_CUDA_CONTRACT_MMA_FP8_CUH

#include "cuda/contract_mma/kernel.cuh"

namespace tenon {
namespace cuda {

template <class... Arguments> auto conv_fp8_sm89(Arguments... arguments) {
  return conv_mma<tensor_cores_fp8_sm89>(arguments...);
}
template <class... Arguments> auto matmul_fp8_sm89(Arguments... arguments) {
  return matmul_mma<tensor_cores_fp8_sm89>(arguments...);
}

} // namespace cuda
} // namespace tenon

#endif
