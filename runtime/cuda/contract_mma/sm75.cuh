// Defines `conv_mma_sm75` and `matmul_mma_sm75`: fp16 contractions with fp32 accumulation on Tensor
// Cores, by mma.sync m16n8k8 (sm_75 and up; from sm_80 on the instructions of sm80.cuh
// are faster). Tiles pass through registers on sm_75, which has no cp.async. See kernel.cuh.
#ifndef TENON_RUNTIME_CUDA_CONTRACT_MMA_SM75_CUH
#define TENON_RUNTIME_CUDA_CONTRACT_MMA_SM75_CUH

#include "cuda/contract_mma/kernel.cuh"
#include "cuda/tile/tensor_cores_sm75.cuh"

namespace tenon {
namespace cuda {

template <class Config, class X, class W, class Outs, class Ins, class Body,
          class Prologue = no_prologue, class PrologueIns = arguments<>>
contract_mma_kernel<tensor_cores_sm75, Config, conv_problem<Config, X>, W, Outs, Ins, Body,
                    Prologue, PrologueIns>
conv_mma_sm75(Config cfg, X x, W w, Outs outs, Ins ins, Body body, split_scratch scratch = {},
              Prologue prologue = {}, PrologueIns prologue_ins = {}) {
  return {{cfg, x}, w, outs, ins, body, prologue, prologue_ins, scratch};
}

template <class Config, class X, class B, class Outs, class Ins, class Body,
          class Prologue = no_prologue, class PrologueIns = arguments<>>
contract_mma_kernel<tensor_cores_sm75, Config, matmul_problem<Config, X>, B, Outs, Ins, Body,
                    Prologue, PrologueIns>
matmul_mma_sm75(Config cfg, X x, B b, Outs outs, Ins ins, Body body, split_scratch scratch = {},
                Prologue prologue = {}, PrologueIns prologue_ins = {}) {
  return {{cfg, x}, b, outs, ins, body, prologue, prologue_ins, scratch};
}

} // namespace cuda
} // namespace tenon

#endif
