// Stands in for runtime/cuda/ptx/cluster.cuh.
#ifndef TENON_RUNTIME_CUDA_PTX_CLUSTER_CUH
#define TENON_RUNTIME_CUDA_PTX_CLUSTER_CUH

#include "cuda/ptx/shared_address.cuh"

namespace tenon {
namespace cuda {
namespace ptx {

struct cluster {
  static void arrive() { emulator::machine::instance().arrive_in_cluster(); }
  static void wait() { emulator::machine::instance().wait_in_cluster(); }
  static word16 read(const word16 *p, int rank) {
    emulator::machine &m = emulator::machine::instance();
    word16 w;
    memcpy(&w, m.shared_of(rank) + (reinterpret_cast<const unsigned char *>(p) - m.shared()),
           sizeof(w));
    return w;
  }
};

} // namespace ptx
} // namespace cuda
} // namespace tenon

#endif
