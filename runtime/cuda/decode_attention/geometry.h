// Defines `decode_attention_geometry`: what a block of decode_attention's kernel has of keys and
// values, its shared memory, and what blocks that share queries send each other.
#ifndef TENON_RUNTIME_CUDA_DECODE_ATTENTION_GEOMETRY_H
#define TENON_RUNTIME_CUDA_DECODE_ATTENTION_GEOMETRY_H

#include "cuda/tile/geometry.h"

namespace tenon {
namespace cuda {

struct decode_attention_geometry {
  // The schedule: warps of a block, along keys; keys that a warp has at a time; stages of its ring;
  // blocks that share the keys of the same queries.
  index_t warps, keys, stages, splits;
  index_t d, e; // of a query and key, and of a value
  bool cluster; // blocks that share are one, and meet in shared memory; otherwise in scratch

  static constexpr int gap = 8;   // elements between rows
  static constexpr int rows = 16; // of a block: queries of heads that share keys
  TENON_FN constexpr index_t depth() const { return ceil_div(d, index_t(16)) * 16; }
  TENON_FN constexpr index_t width() const { return ceil_div(e, index_t(16)) * 16; }
  TENON_FN constexpr index_t threads() const { return 32 * warps; }

  // --- sums: blocks of 8 columns, 4 of a lane, in the end an even share for each warp ---

  TENON_FN constexpr index_t own_blocks() const { return ceil_div(width() / 8, warps); }
  TENON_FN constexpr index_t sums() const { return own_blocks() * warps * 4; }

  // --- shared memory: rings of the warps, where these join then; what a cluster sends; queries ---

  TENON_FN constexpr index_t stage_bytes() const {
    return 2 * keys * (depth() + gap + width() + gap);
  }
  TENON_FN constexpr index_t ring_bytes() const { return warps * stages * stage_bytes(); }
  TENON_FN constexpr index_t joining_bytes() const {
    return warps > 1 ? team_bytes(warps, 32, sums()) + warps * rows * 8 : 0;
  }
  TENON_FN constexpr bool sends() const { return cluster && splits > 1; }
  TENON_FN constexpr index_t received_at() const { return max_of(ring_bytes(), joining_bytes()); }
  /// Blocks of 8 columns that one of `splits` finishes: every splits-th.
  TENON_FN constexpr index_t finished_blocks() const { return ceil_div(width() / 8, splits); }
  TENON_FN constexpr index_t extremes_at() const {
    return received_at() + (sends() ? splits * finished_blocks() * 512 : 0);
  }
  TENON_FN constexpr index_t barrier_at() const {
    return extremes_at() + (sends() ? splits * rows * 8 : 0);
  }
  TENON_FN constexpr index_t queries_at() const { return barrier_at() + 16; }
  TENON_FN constexpr index_t shared_bytes() const {
    return queries_at() + 2 * rows * (depth() + gap);
  }

  // --- scratch of blocks that are no cluster, for each tile of rows: their sums and extremes in
  // words of 16 bytes, and a counter of those that have come ---

  TENON_FN constexpr index_t part_words() const { return own_blocks() * threads() + rows / 2; }
  TENON_FN constexpr index_t part_bytes(index_t tiles) const {
    return splits > 1 && !cluster ? tiles * splits * part_words() * 16 : 0;
  }
  TENON_FN constexpr index_t counter_bytes(index_t tiles) const {
    return cluster ? 0 : split_counter_bytes(tiles, splits);
  }
};

} // namespace cuda
} // namespace tenon

#endif
