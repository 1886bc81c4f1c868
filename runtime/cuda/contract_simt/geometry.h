// Defines `contract_simt_geometry`: the threads and the shared memory of contract_simt's kernel.
#ifndef TENON_RUNTIME_CUDA_CONTRACT_SIMT_GEOMETRY_H
#define TENON_RUNTIME_CUDA_CONTRACT_SIMT_GEOMETRY_H

#include "cuda/tile/geometry.h"

namespace tenon {
namespace cuda {

struct contract_simt_geometry {
  index_t tile_m, tile_n, tile_k, thread_m, thread_n, stages, teams; // the schedule

  /// Floats between rows of A.
  static constexpr int a_gap = 4;
  TENON_FN constexpr index_t team_threads() const {
    return tile_m / thread_m * (tile_n / thread_n);
  }
  TENON_FN constexpr index_t threads() const { return team_threads() * teams; }
  /// Floats of a buffer: a tile of A and one of B.
  TENON_FN constexpr index_t buffer() const { return tile_m * (tile_k + a_gap) + tile_k * tile_n; }
  TENON_FN constexpr index_t shared_bytes() const {
    return max_of(stages * buffer() * 4, team_bytes(teams, team_threads(), thread_m * thread_n));
  }
};

} // namespace cuda
} // namespace tenon

#endif
