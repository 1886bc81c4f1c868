// Defines how much of a multiprocessor's shared memory kernels ask for that may start before the
// one ahead of them has finished.
//
// Their blocks are placed while those of the kernel ahead still hold their multiprocessors. Where
// two fit on one, 64 blocks take 32 multiprocessors, those of the next kernel go two by two to the
// others, and all bring their tiles at half the speed. Where one takes most of a multiprocessor,
// the next kernel's have to wait. So kernels of few blocks take more than half and less than half
// in turn: beside a block of the kernel ahead there is room for one, and no more.
#ifndef TENON_RUNTIME_CUDA_HOST_SMEM_PARTITION_H
#define TENON_RUNTIME_CUDA_HOST_SMEM_PARTITION_H

#include "cuda/base/operands.cuh"
#include "cuda/status.h"

namespace tenon {
namespace cuda {

/// What kernels that may start early need to know of their device.
struct early_starts {
  int multiprocessors;
  int shared_bytes;   // of one
  int reserved_bytes; // what each block takes of these beside its own
};
inline status read_facts(early_starts &facts, int device) {
  TENON_CHECK_CUDA(
      cudaDeviceGetAttribute(&facts.multiprocessors, cudaDevAttrMultiProcessorCount, device));
  TENON_CHECK_CUDA(cudaDeviceGetAttribute(&facts.shared_bytes,
                                          cudaDevAttrMaxSharedMemoryPerMultiprocessor, device));
  return from_cuda(cudaDeviceGetAttribute(&facts.reserved_bytes,
                                          cudaDevAttrReservedSharedMemoryPerBlock, device));
}

/// Shared memory from which on a kernel counts as one of tiles.
constexpr int bytes_of_tiles = 16 * 1024;

/// Whether a launch has no more than `most` blocks.
inline bool is_at_most(const grid &g, index_t most) {
  return g.x <= most && g.y <= most && g.z <= most && g.x * g.y * g.z <= most;
}

/// The shares of a sequence of launches.
class shares {
public:
  /// None starts early: each takes what it needs.
  shares() = default;
  explicit shares(const early_starts &d)
      : multiprocessors_(d.multiprocessors), half_(d.shared_bytes / 2 - d.reserved_bytes) {}

  /// Bytes that the next launch asks for, of a kernel that needs `needed` for a block.
  int next(const grid &blocks, int needed) {
    if (needed < bytes_of_tiles || !is_at_most(blocks, multiprocessors_))
      return needed;
    const int share = was_more_ && needed <= less() ? less() : larger(needed, more());
    was_more_ = share > half_;
    return share;
  }
  /// No launch of that kernel asks for more.
  int most(int needed) const {
    return multiprocessors_ == 0 || needed < bytes_of_tiles ? needed : larger(needed, more());
  }

private:
  static int larger(int a, int b) { return a > b ? a : b; }
  // Both, what is reserved, and a kilobyte for a kernel's static shared memory make a whole.
  int more() const { return half_ + 1024; }
  int less() const { return half_ - 2048; }

  int multiprocessors_ = 0, half_ = 0;
  bool was_more_ = false;
};

} // namespace cuda
} // namespace tenon

#endif
