// Defines `conv_mma_sm80` and `matmul_mma_sm80`: fp16 and bf16 contractions with fp32 accumulation
// on Tensor Cores, by mma.sync m16n8k16 (sm_80 and up). See kernel.cuh.
#ifndef TENON_RUNTIME_CUDA_CONTRACT_MMA_SM80_CUH
#define TENON_RUNTIME_CUDA_CONTRACT_MMA_SM80_CUH

#include "cuda/contract_mma/kernel.cuh"
#include "cuda/tile/tensor_cores_sm80.cuh"

namespace tenon {
namespace cuda {

template <class Config, class X, class W, class Outs, class Ins, class Body,
          class Prologue = no_prologue, class PrologueIns = arguments<>>
contract_mma_kernel<tensor_cores_sm80, Config, conv_problem<Config, X>, W, Outs, Ins, Body,
                    Prologue, PrologueIns>
conv_mma_sm80(Config cfg, X x, W w, Outs outs, Ins ins, Body body, split_scratch scratch = {},
              Prologue prologue = {}, PrologueIns prologue_ins = {}) {
  return {{cfg, x}, w, outs, ins, body, prologue, prologue_ins, scratch};
}

template <class Config, class X, class B, class Outs, class Ins, class Body,
          class Prologue = no_prologue, class PrologueIns = arguments<>>
contract_mma_kernel<tensor_cores_sm80, Config, matmul_problem<Config, X>, B, Outs, Ins, Body,
                    Prologue, PrologueIns>
matmul_mma_sm80(Config cfg, X x, B b, Outs outs, Ins ins, Body body, split_scratch scratch = {},
                Prologue prologue = {}, PrologueIns prologue_ins = {}) {
  return {{cfg, x}, b, outs, ins, body, prologue, prologue_ins, scratch};
}

} // namespace cuda
} // namespace tenon

#endif
