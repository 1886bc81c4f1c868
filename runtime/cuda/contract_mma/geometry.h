// Defines `contract_mma_geometry`: the warps and the shared memory of contract_mma's kernels.
#ifndef TENON_RUNTIME_CUDA_CONTRACT_MMA_GEOMETRY_H
#define TENON_RUNTIME_CUDA_CONTRACT_MMA_GEOMETRY_H

#include "cuda/tile/geometry.h"

namespace tenon {
namespace cuda {

struct contract_mma_geometry {
  index_t tile_m, tile_n, tile_k, warp_m, warp_n, stages, teams; // the schedule
  index_t element_bytes;                                         // of what is multiplied
  bool has_gaps; // between rows of B that lie along N where ldmatrix does not transpose them

  static constexpr int gap = 8; // elements
  TENON_FN constexpr index_t team_warps() const { return tile_m / warp_m * (tile_n / warp_n); }
  TENON_FN constexpr index_t warps() const { return team_warps() * teams; }
  TENON_FN constexpr index_t threads() const { return 32 * warps(); }
  /// Bytes of all buffers: in each a tile of A and one of B.
  TENON_FN constexpr index_t buffer_bytes() const {
    return stages * (tile_m + tile_n + (has_gaps ? gap : 0)) * tile_k * element_bytes;
  }
  /// Sums of a row on their way to the epilogue; the gap spreads rows over the banks.
  TENON_FN constexpr index_t turn_pitch() const { return warp_n + 4; }
  /// Bytes for `blocks` blocks of 16 rows of sums of every warp.
  TENON_FN constexpr index_t turn_bytes(index_t blocks) const {
    return warps() * blocks * 16 * turn_pitch() * 4;
  }
  /// How many of as many blocks a warp turns at a time: those that fit where tiles were, so that
  /// few copies of the epilogue are compiled.
  TENON_FN constexpr index_t most_turned(index_t blocks) const {
    return blocks == 1 || turn_bytes(blocks) <= buffer_bytes() ? blocks : most_turned(blocks / 2);
  }
  /// staged_bytes: of what the prologue reads, behind the buffers.
  TENON_FN constexpr index_t shared_bytes(index_t staged_bytes) const {
    return max_of(max_of(buffer_bytes() + staged_bytes, turn_bytes(1)),
                  team_bytes(teams, 32 * team_warps(), warp_m * warp_n / 32));
  }
};

} // namespace cuda
} // namespace tenon

#endif
