// Stands in for runtime/cuda/ptx/named_barrier.cuh.
#ifndef TENON_RUNTIME_CUDA_PTX_NAMED_BARRIER_CUH
#define TENON_RUNTIME_CUDA_PTX_NAMED_BARRIER_CUH

#include "cuda/device.cuh"

namespace tenon {
namespace cuda {
namespace ptx {

struct named_barrier {
  static void sync(int id, int threads) { emulator::machine::instance().sync_part(id, threads); }
  static void arrive(int id, int threads) {
    emulator::machine::instance().arrive_in_part(id, threads);
  }
};

} // namespace ptx
} // namespace cuda
} // namespace tenon

#endif
