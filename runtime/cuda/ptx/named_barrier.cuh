// Defines the barriers 1 to 15 of a block, each for a part of its warps.
#ifndef TENON_RUNTIME_CUDA_PTX_NAMED_BARRIER_CUH
#define TENON_RUNTIME_CUDA_PTX_NAMED_BARRIER_CUH

#include "cuda/device.cuh"

namespace tenon {
namespace cuda {
namespace ptx {

struct named_barrier {
  /// Waits until `threads` threads, whole warps, have come to barrier `id`.
  TENON_DEVICE static void sync(int id, int threads) {
#if defined(__CUDA_ARCH__)
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
#else
    (void)id, (void)threads;
#endif
  }
  /// Counts as having come to it, and goes on.
  TENON_DEVICE static void arrive(int id, int threads) {
#if defined(__CUDA_ARCH__)
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
#else
    (void)id, (void)threads;
#endif
  }
};

} // namespace ptx
} // namespace cuda
} // namespace tenon

#endif
