// Stands in for runtime/cuda/ptx/cluster.cuh.
#ifndef TENON_RUNTIME_CUDA_PTX_CLUSTER_CUH
#define TENON_RUNTIME_CUDA_PTX_CLUSTER_CUH

#include "cuda/ptx/mbarrier.cuh"

namespace tenon {
namespace cuda {
namespace ptx {

struct cluster {
  static void arrive() { emulator::machine::instance().arrive_in_cluster(); }
  static void wait() { emulator::machine::instance().wait_in_cluster(); }
  static void send(word16 *p, mbarrier &done, int rank, const word16 &w) {
    emulator::machine &m = emulator::machine::instance();
    const auto there = [&](void *here) {
      return m.shared_of(rank) + (static_cast<unsigned char *>(here) - m.shared());
    };
    unsigned char *const to = there(p);
    auto *const barrier = reinterpret_cast<mbarrier *>(there(&done));
    m.start_copy([=] {
      memcpy(to, &w, sizeof(w));
      barrier->land(sizeof(w));
    });
  }
};

} // namespace ptx
} // namespace cuda
} // namespace tenon

#endif
