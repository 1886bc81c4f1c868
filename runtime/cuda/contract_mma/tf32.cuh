// Defines `conv_tf32_sm80` and `matmul_tf32_sm80`, contractions of floats on Tensor Cores that
// multiply in tf32, and `conv_tf32x3_sm80` and `matmul_tf32x3_sm80`, which are as exact as fp32 by
// three such products (sm_80 and up). See kernel.cuh and tensor_cores_tf32_sm80.cuh.
#ifndef TENON_RUNTIME_CUDA_CONTRACT_MMA_TF32_CUH
#define TENON_RUNTIME_CUDA_CONTRACT_MMA_TF32_CUH

#include "cuda/contract_mma/kernel.cuh"
#include "cuda/tile/tensor_cores_tf32_sm80.cuh"

namespace tenon {
namespace cuda {

template <class Config, class X, class W, class Outs, class Ins, class Body,
          class Prologue = no_prologue, class PrologueIns = arguments<>>
contract_mma_kernel<tensor_cores_tf32_sm80, Config, conv_problem<Config, X>, W, Outs, Ins, Body,
                    Prologue, PrologueIns>
conv_tf32_sm80(Config cfg, X x, W w, Outs outs, Ins ins, Body body, split_scratch scratch = {},
               Prologue prologue = {}, PrologueIns prologue_ins = {}) {
  return {{cfg, x}, w, outs, ins, body, prologue, prologue_ins, scratch};
}

template <class Config, class X, class B, class Outs, class Ins, class Body,
          class Prologue = no_prologue, class PrologueIns = arguments<>>
contract_mma_kernel<tensor_cores_tf32_sm80, Config, matmul_problem<Config, X>, B, Outs, Ins, Body,
                    Prologue, PrologueIns>
matmul_tf32_sm80(Config cfg, X x, B b, Outs outs, Ins ins, Body body, split_scratch scratch = {},
                 Prologue prologue = {}, PrologueIns prologue_ins = {}) {
  return {{cfg, x}, b, outs, ins, body, prologue, prologue_ins, scratch};
}

template <class Config, class X, class W, class Outs, class Ins, class Body,
          class Prologue = no_prologue, class PrologueIns = arguments<>>
contract_mma_kernel<tensor_cores_tf32x3_sm80, Config, conv_problem<Config, X>, W, Outs, Ins, Body,
                    Prologue, PrologueIns>
conv_tf32x3_sm80(Config cfg, X x, W w, Outs outs, Ins ins, Body body, split_scratch scratch = {},
                 Prologue prologue = {}, PrologueIns prologue_ins = {}) {
  return {{cfg, x}, w, outs, ins, body, prologue, prologue_ins, scratch};
}

template <class Config, class X, class B, class Outs, class Ins, class Body,
          class Prologue = no_prologue, class PrologueIns = arguments<>>
contract_mma_kernel<tensor_cores_tf32x3_sm80, Config, matmul_problem<Config, X>, B, Outs, Ins, Body,
                    Prologue, PrologueIns>
matmul_tf32x3_sm80(Config cfg, X x, B b, Outs outs, Ins ins, Body body, split_scratch scratch = {},
                   Prologue prologue = {}, PrologueIns prologue_ins = {}) {
  return {{cfg, x}, b, outs, ins, body, prologue, prologue_ins, scratch};
}

} // namespace cuda
} // namespace tenon

#endif
