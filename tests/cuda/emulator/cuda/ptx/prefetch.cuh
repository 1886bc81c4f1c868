// Stands in for runtime/cuda/ptx/prefetch.cuh: a hint must name an address that exists.
#ifndef TENON_RUNTIME_CUDA_PTX_PREFETCH_CUH
#define TENON_RUNTIME_CUDA_PTX_PREFETCH_CUH

#include "cuda/device.cuh"

namespace tenon {
namespace cuda {
namespace ptx {

struct prefetch_l2 {
  static constexpr int line = 128;
  static void hint(const void *p) { (void)*static_cast<const volatile char *>(p); }
};

} // namespace ptx
} // namespace cuda
} // namespace tenon

#endif
