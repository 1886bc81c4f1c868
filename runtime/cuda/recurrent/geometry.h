// Defines `recurrent_geometry`: the units that blocks of a cluster take, the tiles of weights that
// warps hold, and the shared memory of recurrent's kernel.
#ifndef TENON_RUNTIME_CUDA_RECURRENT_GEOMETRY_H
#define TENON_RUNTIME_CUDA_RECURRENT_GEOMETRY_H

#include "common/arithmetic.h"

namespace tenon {
namespace cuda {

struct recurrent_geometry {
  index_t hidden, rows;     // of a state; of the batch, in a cluster
  index_t gates0, gates1;   // of the first product and of the second; 0: there is none
  index_t element_bytes;    // of weights and states
  index_t threads, blocks;  // of a block; of a cluster
  index_t splits0, splits1; // of the terms of each product, among the warps

  static constexpr index_t tile_rows = 16, most_rows = 8;
  /// Tiles of weights that a thread has room for in its registers, four words each.
  TENON_FN constexpr index_t most_held() const { return threads > 256 ? 16 : 32; }

  TENON_FN constexpr index_t products() const { return gates1 > 0 ? 2 : 1; }
  TENON_FN constexpr index_t gates(index_t product) const { return product == 0 ? gates0 : gates1; }
  TENON_FN constexpr index_t splits(index_t product) const {
    return product == 0 ? splits0 : splits1;
  }
  /// Terms of a tile.
  TENON_FN constexpr index_t tile_terms() const { return element_bytes == 2 ? 16 : 8; }
  /// Units of a block, whole words of 16 bytes; terms of a product, whole tiles of halves.
  TENON_FN constexpr index_t units() const {
    return ceil_div(ceil_div(hidden, blocks), index_t(8)) * 8;
  }
  TENON_FN constexpr index_t terms() const { return ceil_div(units() * blocks, index_t(16)) * 16; }
  /// From row to row of the states in shared memory, in elements: rows begin 16 bytes apart in the
  /// banks.
  TENON_FN constexpr index_t pitch() const { return terms() + 16 / element_bytes; }

  TENON_FN constexpr index_t warps() const { return threads / 32; }
  TENON_FN constexpr index_t row_tiles(index_t product) const {
    return ceil_div(gates(product) * units(), tile_rows);
  }
  TENON_FN constexpr index_t term_tiles() const { return terms() / tile_terms(); }
  /// Tiles of a warp, in rows and along the terms.
  TENON_FN constexpr index_t own_rows(index_t product) const {
    return ceil_div(row_tiles(product), warps() / splits(product));
  }
  TENON_FN constexpr index_t own_terms(index_t product) const {
    return ceil_div(term_tiles(), splits(product));
  }
  TENON_FN constexpr index_t own_tiles(index_t product) const {
    return own_rows(product) * own_terms(product);
  }
  TENON_FN constexpr index_t tiles() const {
    return own_tiles(0) + (gates1 > 0 ? own_tiles(1) : 0);
  }
  TENON_FN constexpr index_t held() const { return dim_min(tiles(), most_held()); }

  /// Sums of a row of the batch, as floats; neighbours among the rows lie in different banks.
  TENON_FN constexpr index_t sums_pitch(index_t product) const {
    return row_tiles(product) * tile_rows + 4;
  }
  TENON_FN constexpr index_t sums_bytes(index_t product) const {
    return splits(product) * rows * sums_pitch(product) * 4;
  }

  // Bytes, and where things begin, each behind the one before it; first two barriers.
  static constexpr int states_at = 16;
  TENON_FN constexpr index_t states_bytes() const { return rows * pitch() * element_bytes; }
  TENON_FN constexpr index_t staged_at() const { return states_at + 2 * states_bytes(); }
  TENON_FN constexpr index_t staged_bytes() const { return rows * units() * element_bytes; }
  TENON_FN constexpr index_t sums_at() const { return staged_at() + staged_bytes(); }
  /// Of one product and of the next.
  TENON_FN constexpr index_t most_sums_bytes() const {
    return dim_max(sums_bytes(0), gates1 > 0 ? sums_bytes(1) : 0);
  }
  TENON_FN constexpr index_t rest_at() const { return sums_at() + 2 * most_sums_bytes(); }
  TENON_FN constexpr index_t shared_bytes() const {
    return rest_at() + (tiles() - held()) * threads * 16;
  }
};

} // namespace cuda
} // namespace tenon

#endif
