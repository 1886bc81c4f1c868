// Defines the hint that brings a cache line into the second-level cache.
#ifndef TENON_RUNTIME_CUDA_PTX_PREFETCH_CUH
#define TENON_RUNTIME_CUDA_PTX_PREFETCH_CUH

#include "cuda/device.cuh"

namespace tenon {
namespace cuda {
namespace ptx {

struct prefetch_l2 {
  static constexpr int line = 128;
  TENON_DEVICE static void hint(const void *p) {
#if defined(__CUDA_ARCH__)
    asm volatile("prefetch.global.L2 [%0];" ::"l"(p));
#else
    (void)p;
#endif
  }
};

} // namespace ptx
} // namespace cuda
} // namespace tenon

#endif
