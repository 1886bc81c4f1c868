// Defines `conv_patch_sm80`: fp16 and bf16 convolutions of few channels a group on the Tensor Cores
// of sm_80 and up. See kernel.cuh.
#ifndef TENON_RUNTIME_CUDA_CONV_PATCH_SM80_CUH
#define TENON_RUNTIME_CUDA_CONV_PATCH_SM80_CUH

#include "cuda/conv_patch/kernel.cuh"
#include "cuda/tile/tensor_cores_sm80.cuh"

namespace tenon {
namespace cuda {

template <class Config, class X, class T, class Outs, class Ins, class Body,
          class Prologue = prologue_of_bytes<Config>, class PrologueIns = arguments<>>
conv_patch_kernel<tensor_cores_sm80, Config, X, T, Outs, Ins, Body, Prologue, PrologueIns>
conv_patch_sm80(Config cfg, X x, packed_weights<T> w, Outs outs, Ins ins, Body body,
                Prologue prologue = {}, PrologueIns prologue_ins = {}) {
  return {{cfg, x}, w, outs, ins, body, prologue, prologue_ins};
}

} // namespace cuda
} // namespace tenon

#endif
