// Defines mbarrier objects in shared memory (sm_90 and up): barriers that count arrivals of threads
// and bytes of asynchronous copies.
//
// A phase completes when `count` threads have arrived and all expected bytes have landed; the next
// begins at once. `wait(parity)` returns when the phase of that parity has completed; on a fresh
// barrier, the phase before the first counts as complete: parity 1 passes, parity 0 waits.
#ifndef TENON_RUNTIME_CUDA_PTX_MBARRIER_CUH
#define TENON_RUNTIME_CUDA_PTX_MBARRIER_CUH

#include "cuda/ptx/shared_address.cuh"

namespace tenon {
namespace cuda {
namespace ptx {

struct mbarrier {
  uint64_t state;

  TENON_DEVICE void init(int count) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(this)), "r"(count)
                 : "memory");
#else
    (void)count;
#endif
  }
  /// Makes initialised barriers visible to the copy engine.
  TENON_DEVICE static void fence_init() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
  }
  TENON_DEVICE void arrive() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(this)) : "memory");
#endif
  }
  /// Arrives and says how many bytes more this phase waits for.
  TENON_DEVICE void arrive_expecting(int bytes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(this)),
        "r"(bytes)
        : "memory");
#else
    (void)bytes;
#endif
  }
  TENON_DEVICE bool try_wait(int parity) {
    unsigned done = 1;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, p;\n"
                 "}"
                 : "=r"(done)
                 : "r"(shared_address(this)), "r"(parity)
                 : "memory");
#else
    (void)parity;
#endif
    return done != 0;
  }
  TENON_DEVICE void wait(int parity) {
    while (!try_wait(parity)) {
    }
  }
  /// As wait: what other blocks of the cluster have sent is there, too.
  TENON_DEVICE void wait_for_cluster(int parity) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    unsigned done = 0;
    while (!done)
      asm volatile("{\n"
                   ".reg .pred p;\n"
                   "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n"
                   "selp.u32 %0, 1, 0, p;\n"
                   "}"
                   : "=r"(done)
                   : "r"(shared_address(this)), "r"(parity)
                   : "memory");
#else
    (void)parity;
#endif
  }
};

} // namespace ptx
} // namespace cuda
} // namespace tenon

#endif
