// Defines `conv_mma_sm80` and `matmul_mma_sm80`: fp16 and bf16 contractions with fp32 accumulation
// on Tensor Cores, by mma.sync m16n8k16 (sm_80 and up). See kernel.cuh.
#ifndef TENON_RUNTIME_CUDA_CONTRACT_MMA_SM80_CUH
#define TENON_RUNTIME_CUDA_CONTRACT_MMA_SM80_CUH

#include "cuda/contract_mma/kernel.cuh"
#include "cuda/tile/tensor_cores_sm80.cuh"

namespace tenon {
namespace cuda {

template <class... Arguments> auto conv_mma_sm80(Arguments... arguments) {
  return conv_mma<tensor_cores_sm80>(arguments...);
}
template <class... Arguments> auto matmul_mma_sm80(Arguments... arguments) {
  return matmul_mma<tensor_cores_sm80>(arguments...);
}

} // namespace cuda
} // namespace tenon

#endif
