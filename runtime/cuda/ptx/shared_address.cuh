// Defines the 32-bit address that instructions on shared memory take.
#ifndef TENON_RUNTIME_CUDA_PTX_SHARED_ADDRESS_CUH
#define TENON_RUNTIME_CUDA_PTX_SHARED_ADDRESS_CUH

#include "cuda/device.cuh"

namespace tenon {
namespace cuda {
namespace ptx {

TENON_DEVICE unsigned shared_address(const void *p) {
#if defined(__CUDA_ARCH__)
  return unsigned(__cvta_generic_to_shared(p));
#else
  (void)p;
  return 0;
#endif
}

} // namespace ptx
} // namespace cuda
} // namespace tenon

#endif
