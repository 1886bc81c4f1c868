// Defines `contract_cluster_geometry`: what the blocks of a cluster send each other, and the shared
// memory and threads of contract_cluster's kernel.
#ifndef TENON_RUNTIME_CUDA_CONTRACT_CLUSTER_GEOMETRY_H
#define TENON_RUNTIME_CUDA_CONTRACT_CLUSTER_GEOMETRY_H

#include "common/arithmetic.h"

namespace tenon {
namespace cuda {

struct contract_cluster_geometry {
  index_t tile_m, tile_n, consumers, splits;

  /// Warpgroups share a tile's rows, or its columns where there are not 64 rows for each.
  TENON_FN constexpr bool shares_columns() const { return tile_m < 64 * consumers; }
  /// Rows and columns of a warpgroup.
  TENON_FN constexpr index_t rows() const { return shares_columns() ? tile_m : tile_m / consumers; }
  TENON_FN constexpr index_t columns() const {
    return shares_columns() ? tile_n / consumers : tile_n;
  }
  TENON_FN constexpr index_t multiplying() const { return 128 * consumers; } // threads
  /// With the warp that copies.
  TENON_FN constexpr index_t threads() const { return multiplying() + 32; }

  /// Sums of a thread that blocks of a tile send each other: units of eight, dealt out in turn.
  TENON_FN constexpr index_t units() const { return rows() * columns() / (128 * 8); }
  TENON_FN constexpr index_t own_units() const { return ceil_div(units(), splits); } // of a block
  /// Where there are more blocks than units, each unit goes to several, by warps.
  TENON_FN constexpr index_t receivers() const {
    return splits >= 4 * units() ? 4 : splits >= 2 * units() ? 2 : 1;
  }
  /// Threads whose unit a block gets.
  TENON_FN constexpr index_t sending() const { return multiplying() / receivers(); }
  /// Bytes that lie behind the ring of buffers and what the prologue reads.
  TENON_FN constexpr index_t sent_bytes() const {
    return splits == 1 ? 0 : own_units() * splits * 32 * sending();
  }
};

} // namespace cuda
} // namespace tenon

#endif
