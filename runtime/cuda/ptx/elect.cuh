// Defines `elect`: one lane of a whole warp, for instructions that one thread issues.
#ifndef TENON_RUNTIME_CUDA_PTX_ELECT_CUH
#define TENON_RUNTIME_CUDA_PTX_ELECT_CUH

#include "cuda/device.cuh"

namespace tenon {
namespace cuda {
namespace ptx {

struct elect {
  /// True in one lane, the same one each time; all 32 have to come.
  TENON_DEVICE static bool one() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    unsigned chosen;
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "elect.sync _|p, 0xffffffff;\n"
                 "selp.u32 %0, 1, 0, p;\n"
                 "}"
                 : "=r"(chosen));
    return chosen != 0;
#else
    return lane() == 0;
#endif
  }
};

} // namespace ptx
} // namespace cuda
} // namespace tenon

#endif
