// Stands in for runtime/cuda/ptx/bulk_copy.cuh.
#ifndef TENON_RUNTIME_CUDA_PTX_BULK_COPY_CUH
#define TENON_RUNTIME_CUDA_PTX_BULK_COPY_CUH

#include "cuda/ptx/mbarrier.cuh"

namespace tenon {
namespace cuda {
namespace ptx {

struct bulk_copy {
  static void load_once(void *to, const void *from, int bytes, mbarrier &done) {
    if ((uintptr_t(to) | uintptr_t(from) | unsigned(bytes)) % 16)
      emulator::machine::fail("a bulk copy that is no whole words of 16 bytes");
    emulator::machine::instance().start_copy([=, barrier = &done] {
      memcpy(to, from, size_t(bytes));
      barrier->land(bytes);
    });
  }
};

} // namespace ptx
} // namespace cuda
} // namespace tenon

#endif
