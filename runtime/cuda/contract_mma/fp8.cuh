// Defines `conv_fp8_sm89` and `matmul_fp8_sm89`: contractions of f8e4m3 with fp32 sums on Tensor
// Cores, by mma.sync m16n8k32 (sm_89 and up). See kernel.cuh. x is f8e4m3, weights are
// k_major_weights of it. How sums keep what fp32 keeps is in tile/tensor_cores_fp8.cuh.
#ifndef TENON_RUNTIME_CUDA_CONTRACT_MMA_FP8_CUH
#define TENON_RUNTIME_CUDA_CONTRACT_MMA_FP8_CUH

#include "cuda/contract_mma/kernel.cuh"

namespace tenon {
namespace cuda {

template <class Config, class X, class W, class Outs, class Ins, class Body>
using conv_fp8_sm89_kernel =
    contract_mma_kernel<tensor_cores_fp8_sm89, Config, conv_problem<Config, X>, W, Outs, Ins, Body,
                        no_prologue, arguments<>>;
template <class Config, class X, class W, class Outs, class Ins, class Body>
conv_fp8_sm89_kernel<Config, X, W, Outs, Ins, Body>
conv_fp8_sm89(Config cfg, X x, W w, Outs outs, Ins ins, Body body, split_scratch scratch = {}) {
  return {{cfg, x}, w, outs, ins, body, {}, {}, scratch};
}

template <class Config, class X, class B, class Outs, class Ins, class Body>
using matmul_fp8_sm89_kernel =
    contract_mma_kernel<tensor_cores_fp8_sm89, Config, matmul_problem<Config, X>, B, Outs, Ins,
                        Body, no_prologue, arguments<>>;
template <class Config, class X, class B, class Outs, class Ins, class Body>
matmul_fp8_sm89_kernel<Config, X, B, Outs, Ins, Body>
matmul_fp8_sm89(Config cfg, X x, B b, Outs outs, Ins ins, Body body, split_scratch scratch = {}) {
  return {{cfg, x}, b, outs, ins, body, {}, {}, scratch};
}

} // namespace cuda
} // namespace tenon

#endif
