// Defines the fence between ordinary accesses of shared memory and those of the copy engine and the
// Tensor Cores (sm_90 and up).
#ifndef TENON_RUNTIME_CUDA_PTX_PROXY_FENCE_CUH
#define TENON_RUNTIME_CUDA_PTX_PROXY_FENCE_CUH

#include "cuda/device.cuh"

namespace tenon {
namespace cuda {
namespace ptx {

struct proxy_fence {
  /// This thread's earlier loads and stores of shared memory come before later asynchronous
  /// accesses.
  TENON_DEVICE static void shared() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
  }
};

} // namespace ptx
} // namespace cuda
} // namespace tenon

#endif
