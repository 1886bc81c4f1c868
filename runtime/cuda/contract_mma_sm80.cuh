// Defines `conv_mma_sm80` and `matmul_mma_sm80`: fp16 and bf16 contractions with fp32 accumulation
// on Tensor Cores, by mma.sync m16n8k16 (sm_80 and up). See contract_mma.cuh.
#ifndef TENON_RUNTIME_CUDA_CONTRACT_MMA_SM80_CUH
#define TENON_RUNTIME_CUDA_CONTRACT_MMA_SM80_CUH

#include "cuda/contract_mma.cuh"
#include "cuda/ptx/mma_sm80.cuh"

namespace tenon {
namespace cuda {

struct tensor_cores_sm80 {
  TENON_FN static constexpr bool runs_on(target t) { return t.arch >= 800; }
  template <class T>
  TENON_DEVICE static void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0,
                                    unsigned b1) {
    if constexpr (detail::is_same<T, bf16>)
      ptx::mma_m16n8k16_bf16::multiply(d, a, b0, b1);
    else
      ptx::mma_m16n8k16_f16::multiply(d, a, b0, b1);
  }
};

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
