// Defines what the blocks of a cluster use of each other (sm_90 and up): their barrier and their
// shared memory.
#ifndef TENON_RUNTIME_CUDA_PTX_CLUSTER_CUH
#define TENON_RUNTIME_CUDA_PTX_CLUSTER_CUH

#include "cuda/ptx/mbarrier.cuh"

namespace tenon {
namespace cuda {
namespace ptx {

struct cluster {
  /// Says that this thread has come. Of what it wrote before, the others are promised no more than
  /// barriers after mbarrier::fence_init(): a release would wait for all of the thread's memory.
  TENON_DEVICE static void arrive() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
#endif
  }
  /// Returns when all threads of the cluster's blocks have come, or ended.
  TENON_DEVICE static void wait() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
#endif
  }
  /// Stores a word where `p` lies in the shared memory of block `rank`, and reports its 16 bytes to
  /// the barrier that lies where `done` does there. That block has begun, and runs until they have
  /// landed.
  TENON_DEVICE static void send(word16 *p, mbarrier &done, int rank, const word16 &w) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("{\n"
                 ".reg .b32 a, b;\n"
                 "mapa.shared::cluster.u32 a, %0, %2;\n"
                 "mapa.shared::cluster.u32 b, %1, %2;\n"
                 "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 "
                 "[a], {%3, %4, %5, %6}, [b];\n"
                 "}" ::"r"(shared_address(p)),
                 "r"(shared_address(&done)), "r"(rank), "r"(w.bits.x), "r"(w.bits.y), "r"(w.bits.z),
                 "r"(w.bits.w)
                 : "memory");
#else
    (void)p, (void)done, (void)rank, (void)w;
#endif
  }
};

} // namespace ptx
} // namespace cuda
} // namespace tenon

#endif
