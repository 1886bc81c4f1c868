// Defines `attention_geometry`: the tiles and the shared memory of attention's kernel.
#ifndef TENON_RUNTIME_CUDA_ATTENTION_GEOMETRY_H
#define TENON_RUNTIME_CUDA_ATTENTION_GEOMETRY_H

#include "cuda/tile/geometry.h"

namespace tenon {
namespace cuda {

struct attention_geometry {
  index_t warps, teams, keys, stages; // the schedule
  index_t d, e;                       // of a query and key, and of a value

  static constexpr int gap = 8; // elements between rows
  TENON_FN constexpr index_t depth() const { return ceil_div(d, index_t(16)) * 16; }
  TENON_FN constexpr index_t width() const { return ceil_div(e, index_t(16)) * 16; }
  TENON_FN constexpr index_t queries() const { return 16 * warps; } // of a block
  TENON_FN constexpr index_t tile_keys() const { return teams * keys; }
  TENON_FN constexpr index_t threads() const { return 32 * warps * teams; }

  /// Sums of a thread, in whole blocks of 8 columns for every team.
  TENON_FN constexpr index_t sums() const { return ceil_div(width() / 8, teams) * teams * 4; }
  /// Tiles of keys and values, and the queries.
  TENON_FN constexpr index_t tile_bytes() const {
    return 2 *
           (stages * tile_keys() * (depth() + gap + width() + gap) + queries() * (depth() + gap));
  }
  /// What teams send each other: sums, and the largest score and the total of every query.
  TENON_FN constexpr index_t sum_bytes() const { return team_bytes(teams, 32 * warps, sums()); }
  TENON_FN constexpr index_t joining_bytes() const {
    return teams > 1 ? sum_bytes() + teams * queries() * 8 : 0;
  }
  TENON_FN constexpr index_t result_bytes() const { return 2 * queries() * (width() + gap); }
  TENON_FN constexpr index_t shared_bytes() const {
    return max_of(tile_bytes(), max_of(joining_bytes(), result_bytes()));
  }
};

} // namespace cuda
} // namespace tenon

#endif
