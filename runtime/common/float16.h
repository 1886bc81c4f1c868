// Defines f16 (IEEE binary16) and bf16 (upper half of binary32): storage types only. Arithmetic is
// done in f32; a store rounds half to even. On CUDA they are the toolkit's own types.
#ifndef TENON_RUNTIME_COMMON_FLOAT16_H
#define TENON_RUNTIME_COMMON_FLOAT16_H

#include "common/base.h"
#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

namespace tenon {

#if defined(__CUDACC__)
using f16 = __half;
using bf16 = __nv_bfloat16;
#else
struct f16 {
  uint16_t bits;
};
struct bf16 {
  uint16_t bits;
};
#endif
static_assert(sizeof(f16) == 2 && sizeof(bf16) == 2, "16-bit floats are stored in two bytes");

} // namespace tenon

#endif
