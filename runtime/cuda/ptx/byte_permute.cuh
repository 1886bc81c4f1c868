// Defines prmt: a word of any four bytes of two others.
#ifndef TENON_RUNTIME_CUDA_PTX_BYTE_PERMUTE_CUH
#define TENON_RUNTIME_CUDA_PTX_BYTE_PERMUTE_CUH

#include "cuda/device.cuh"

namespace tenon {
namespace cuda {
namespace ptx {

/// Of 16-bit halves: a's and b's low ones, or their high ones, a's below.
struct byte_permute {
  TENON_DEVICE static unsigned low_halves(unsigned a, unsigned b) {
#if defined(__CUDA_ARCH__)
    unsigned r;
    asm("prmt.b32 %0, %1, %2, 0x5410;" : "=r"(r) : "r"(a), "r"(b));
    return r;
#else
    return (a & 0xffffu) | b << 16;
#endif
  }
  TENON_DEVICE static unsigned high_halves(unsigned a, unsigned b) {
#if defined(__CUDA_ARCH__)
    unsigned r;
    asm("prmt.b32 %0, %1, %2, 0x7632;" : "=r"(r) : "r"(a), "r"(b));
    return r;
#else
    return a >> 16 | (b & 0xffff0000u);
#endif
  }
  /// The two low bytes of a, or its two high ones, as halves.
  TENON_DEVICE static unsigned widen_low(unsigned a) {
#if defined(__CUDA_ARCH__)
    unsigned r;
    asm("prmt.b32 %0, %1, 0, 0x4140;" : "=r"(r) : "r"(a));
    return r;
#else
    return (a & 0xffu) | (a & 0xff00u) << 8;
#endif
  }
  TENON_DEVICE static unsigned widen_high(unsigned a) {
#if defined(__CUDA_ARCH__)
    unsigned r;
    asm("prmt.b32 %0, %1, 0, 0x4342;" : "=r"(r) : "r"(a));
    return r;
#else
    return (a >> 16 & 0xffu) | (a >> 24) << 16;
#endif
  }
};

} // namespace ptx
} // namespace cuda
} // namespace tenon

#endif
