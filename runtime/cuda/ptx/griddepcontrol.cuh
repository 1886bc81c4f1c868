// Defines the two halves of programmatic dependent launch (sm_90 and up; nothing below).
#ifndef TENON_RUNTIME_CUDA_PTX_GRIDDEPCONTROL_CUH
#define TENON_RUNTIME_CUDA_PTX_GRIDDEPCONTROL_CUH

#include "cuda/device.cuh"

namespace tenon {
namespace cuda {
namespace ptx {

struct griddepcontrol {
  /// Returns once every grid before this one has finished and its writes are visible.
  TENON_DEVICE static void wait() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  }
  /// The next grid may start once every block of this one has come here.
  TENON_DEVICE static void launch_dependents() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
  }
};

} // namespace ptx
} // namespace cuda
} // namespace tenon

#endif
