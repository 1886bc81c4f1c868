// Defines cp.async.bulk loads (sm_90 and up): the copy engine brings a run of bytes into shared
// memory and reports them to an mbarrier. One thread issues it.
#ifndef TENON_RUNTIME_CUDA_PTX_BULK_COPY_CUH
#define TENON_RUNTIME_CUDA_PTX_BULK_COPY_CUH

#include "cuda/ptx/mbarrier.cuh"

namespace tenon {
namespace cuda {
namespace ptx {

struct bulk_copy {
  /// Addresses and `bytes` are multiples of 16. The bytes are read once: the second-level cache
  /// gives them up before others.
  TENON_DEVICE static void load_once(void *to, const void *from, int bytes, mbarrier &done) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    constexpr unsigned long long evict_first = 0x12f0000000000000ull;
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(shared_address(to)),
                 "l"(from), "r"(bytes), "r"(shared_address(&done)), "l"(evict_first)
                 : "memory");
#else
    (void)to, (void)from, (void)bytes, (void)done;
#endif
  }
};

} // namespace ptx
} // namespace cuda
} // namespace tenon

#endif
