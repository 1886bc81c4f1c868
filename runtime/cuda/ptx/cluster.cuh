// Defines what the blocks of a cluster use of each other (sm_90 and up): their barrier and their
// shared memory.
#ifndef TENON_RUNTIME_CUDA_PTX_CLUSTER_CUH
#define TENON_RUNTIME_CUDA_PTX_CLUSTER_CUH

#include "cuda/ptx/shared_address.cuh"

namespace tenon {
namespace cuda {
namespace ptx {

struct cluster {
  /// Says that this thread has come; what it wrote before is seen after wait() by the others.
  TENON_DEVICE static void arrive() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release;" ::: "memory");
#endif
  }
  /// Returns when all threads of the cluster's blocks have come, or ended.
  TENON_DEVICE static void wait() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
#endif
  }
  /// What block `rank` of the cluster has where `p` lies in this one's shared memory.
  TENON_DEVICE static word16 read(const word16 *p, int rank) {
    word16 w{};
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("{\n"
                 ".reg .b32 a;\n"
                 "mapa.shared::cluster.u32 a, %4, %5;\n"
                 "ld.shared::cluster.v4.u32 {%0, %1, %2, %3}, [a];\n"
                 "}"
                 : "=r"(w.bits.x), "=r"(w.bits.y), "=r"(w.bits.z), "=r"(w.bits.w)
                 : "r"(shared_address(p)), "r"(rank)
                 : "memory");
#else
    (void)p, (void)rank;
#endif
    return w;
  }
};

} // namespace ptx
} // namespace cuda
} // namespace tenon

#endif
