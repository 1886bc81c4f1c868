// Defines `conv_mma_sm75` and `matmul_mma_sm75`: fp16 contractions with fp32 accumulation on Tensor
// Cores, by mma.sync m16n8k8 (sm_75 and up; from sm_80 on the instructions of sm80.cuh
// are faster). Tiles pass through registers on sm_75, which has no cp.async. See kernel.cuh.
#ifndef TENON_RUNTIME_CUDA_CONTRACT_MMA_SM75_CUH
#define TENON_RUNTIME_CUDA_CONTRACT_MMA_SM75_CUH

#include "cuda/contract_mma/kernel.cuh"
#include "cuda/tile/tensor_cores_sm75.cuh"

namespace tenon {
namespace cuda {

template <class... Arguments> auto conv_mma_sm75(Arguments... arguments) {
  return conv_mma<tensor_cores_sm75>(arguments...);
}
template <class... Arguments> auto matmul_mma_sm75(Arguments... arguments) {
  return matmul_mma<tensor_cores_sm75>(arguments...);
}

} // namespace cuda
} // namespace tenon

#endif
