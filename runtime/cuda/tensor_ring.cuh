// Defines `tensor_ring`: the buffers in shared memory through which tiles of A and B pass from the
// producer of a persistent contraction to the warpgroups that multiply, and their barriers.
//
// Shared memory: A [stages][parts][tile_m x tile_k], B [stages][parts][tile_k x tile_n] as swizzled
// tiles (ptx/wgmma.cuh), then the barriers.
#ifndef TENON_RUNTIME_CUDA_TENSOR_RING_CUH
#define TENON_RUNTIME_CUDA_TENSOR_RING_CUH

#include "cuda/tensor_loader.cuh"
#include "cuda/tile_order.cuh"

namespace tenon {
namespace cuda {

/// A and B: loaders (tensor_loader.cuh). Parts: of each operand, 2 where a buffer's operands are
/// split.
template <class A, class B, int Stages, int Parts> struct tensor_ring {
  using a_tile = typename A::tile;
  using b_tile = typename B::tile;
  using position = detail::ring_position<Stages>;
  static constexpr int stages = Stages, parts = Parts;
  static constexpr int landing = a_tile::bytes + b_tile::bytes; // in a buffer

  struct barriers {
    ptx::mbarrier full[Stages];  // the buffer's bytes have landed
    ptx::mbarrier empty[Stages]; // all who multiply from it are done
    ptx::mbarrier split[Parts == 2 ? Stages : 1];
    ptx::mbarrier turn[2]; // of consumers that take turns
    ptx::mbarrier sent;    // what the cluster's blocks send has landed; for who initialises it
    int finished[2];       // for split-K
  };
  static constexpr int barriers_at = Stages * Parts * landing,
                       bytes = barriers_at + ceil_div(int(sizeof(barriers)), 16) * 16;

  unsigned char *shared; // ptx::opaque

  TENON_DEVICE unsigned char *a(int stage) const { return shared + stage * Parts * a_tile::bytes; }
  TENON_DEVICE unsigned char *b(int stage) const {
    return shared + Parts * (Stages * a_tile::bytes + stage * b_tile::bytes);
  }
  TENON_DEVICE barriers &all() const { return *reinterpret_cast<barriers *>(shared + barriers_at); }

  /// By one thread, before the block meets: `readers` and `splitters` warps say that they are done
  /// with a buffer.
  TENON_DEVICE void init(int readers, int splitters) const {
    barriers &bar = all();
    TENON_UNROLL
    for (int s = 0; s < Stages; ++s) {
      bar.full[s].init(1);
      bar.empty[s].init(readers);
      if constexpr (Parts == 2)
        bar.split[s].init(splitters);
    }
    bar.turn[0].init(4);
    bar.turn[1].init(4);
    ptx::mbarrier::fence_init();
  }
  /// By each warp that has read it.
  TENON_DEVICE void release(int stage) const {
    if (lane() == 0)
      all().empty[stage].arrive();
  }
};

} // namespace cuda
} // namespace tenon

#endif
