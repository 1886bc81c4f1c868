// Defines what the blocks of a cluster use of each other (sm_90 and up): their barrier and their
// shared memory.
#ifndef TENON_RUNTIME_CUDA_PTX_CLUSTER_CUH
#define TENON_RUNTIME_CUDA_PTX_CLUSTER_CUH

#include "cuda/ptx/mbarrier.cuh"

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
  /// Stores a word where `p` lies in the shared memory of block `rank`, which has begun and runs
  /// until it has been told of it.
  TENON_DEVICE static void store(word16 *p, int rank, const word16 &w) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("{\n"
                 ".reg .b32 a;\n"
                 "mapa.shared::cluster.u32 a, %0, %1;\n"
                 "st.shared::cluster.v4.u32 [a], {%2, %3, %4, %5};\n"
                 "}" ::"r"(shared_address(p)),
                 "r"(rank), "r"(w.bits.x), "r"(w.bits.y), "r"(w.bits.z), "r"(w.bits.w)
                 : "memory");
#else
    (void)p, (void)rank, (void)w;
#endif
  }
  /// Arrives at the barrier that lies where `done` does, in block `rank`: what this thread, or one
  /// it has met, stored there before is seen by who waits for the cluster.
  TENON_DEVICE static void arrive_at(mbarrier &done, int rank) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("{\n"
                 ".reg .b32 a;\n"
                 "mapa.shared::cluster.u32 a, %0, %1;\n"
                 "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [a];\n"
                 "}" ::"r"(shared_address(&done)),
                 "r"(rank)
                 : "memory");
#else
    (void)done, (void)rank;
#endif
  }
};

} // namespace ptx
} // namespace cuda
} // namespace tenon

#endif
