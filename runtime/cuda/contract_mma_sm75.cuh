// Defines `conv_mma_sm75` and `matmul_mma_sm75`: fp16 contractions with fp32 accumulation on Tensor
// Cores, by mma.sync m16n8k8 (sm_75 and up; from sm_80 on the instructions of contract_mma_sm80.cuh
// are faster). Tiles pass through registers on sm_75, which has no cp.async. See contract_mma.cuh.
#ifndef TENON_RUNTIME_CUDA_CONTRACT_MMA_SM75_CUH
#define TENON_RUNTIME_CUDA_CONTRACT_MMA_SM75_CUH

#include "cuda/contract_mma.cuh"
#include "cuda/ptx/mma_sm75.cuh"

namespace tenon {
namespace cuda {

struct tensor_cores_sm75 {
  TENON_FN static constexpr bool runs_on(target t) { return t.arch >= 750; }
  template <class T>
  TENON_DEVICE static void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0,
                                    unsigned b1) {
    static_assert(detail::is_same<T, f16>, "these cores multiply fp16");
    ptx::mma_m16n8k8_f16::multiply(d, a[0], a[1], b0);
    ptx::mma_m16n8k8_f16::multiply(d, a[2], a[3], b1);
  }
};

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
