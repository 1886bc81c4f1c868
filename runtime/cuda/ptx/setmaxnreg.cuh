// Defines setmaxnreg (sm_90a): moves registers between the warpgroups of a block. All warps of a
// warpgroup execute it. Counts are multiples of 8.
#ifndef TENON_RUNTIME_CUDA_PTX_SETMAXNREG_CUH
#define TENON_RUNTIME_CUDA_PTX_SETMAXNREG_CUH

#include "cuda/device.cuh"

namespace tenon {
namespace cuda {
namespace ptx {

template <int Count> struct setmaxnreg {
  static_assert(Count >= 24 && Count <= 256 && Count % 8 == 0, "24 to 256 in steps of 8");
  TENON_DEVICE static void release() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Count));
#endif
  }
  /// Waits until enough registers have been released.
  TENON_DEVICE static void acquire() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Count));
#endif
  }
};

} // namespace ptx
} // namespace cuda
} // namespace tenon

#endif
