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
  static void store(word16 *p, int rank, const word16 &w) { memcpy(there(p, rank), &w, sizeof(w)); }
  static void arrive_at(mbarrier &done, int rank) { there(&done, rank)->arrive(); }

private:
  template <class T> static T *there(T *here, int rank) {
    emulator::machine &m = emulator::machine::instance();
    return reinterpret_cast<T *>(m.shared_of(rank) +
                                 (reinterpret_cast<unsigned char *>(here) - m.shared()));
  }
};

} // namespace ptx
} // namespace cuda
} // namespace tenon

#endif
