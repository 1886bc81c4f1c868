// Defines the device's global timer, in nanoseconds.
#ifndef TENON_RUNTIME_CUDA_PTX_GLOBAL_TIMER_CUH
#define TENON_RUNTIME_CUDA_PTX_GLOBAL_TIMER_CUH

#include "cuda/device.cuh"

namespace tenon {
namespace cuda {
namespace ptx {

struct global_timer {
  TENON_DEVICE static unsigned long long read() {
    unsigned long long now = 0;
#if defined(__CUDA_ARCH__)
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
#endif
    return now;
  }
};

} // namespace ptx
} // namespace cuda
} // namespace tenon

#endif
