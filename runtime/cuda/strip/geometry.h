// Defines `strip_geometry`: what a block of strip's kernel multiplies and the shared memory that it
// has.
#ifndef TENON_RUNTIME_CUDA_STRIP_GEOMETRY_H
#define TENON_RUNTIME_CUDA_STRIP_GEOMETRY_H

#include "common/arithmetic.h"

namespace tenon {
namespace cuda {

struct strip_geometry {
  index_t rows, n, k, bits; // x [rows][k], weights [n][k] of so many bits
  bool scaled;              // by blocks of 32 along k
  index_t matrices;         // of weights, whose outputs the body takes together
  // The schedule: tiles of a warp in a stage; strips whose sums a warp has at a time; stages of the
  // ring; blocks that share a strip along k; and blocks of the grid at most.
  index_t tiles, strips, stages, splits, blocks;
  bool copy_engine; // fills the ring, by a warp of its own
  bool normalized;  // x is, by the kernel

  static constexpr int warps = 8; // that multiply
  static constexpr int tile_bytes = 512;
  TENON_FN constexpr index_t threads() const { return 32 * (warps + copy_engine); }

  // --- tiles of 16 outputs: a strip of them along k is a whole number of pairs ---

  TENON_FN constexpr index_t depth() const { return 256 / bits; }
  TENON_FN constexpr index_t scale_blocks() const { return scaled ? depth() / 32 : 0; }
  TENON_FN constexpr index_t scale_bytes() const { return 32 * scale_blocks(); } // of a tile
  TENON_FN constexpr index_t row_tiles() const { return 2 * ceil_div(k, 2 * depth()); }
  TENON_FN constexpr index_t all_strips() const { return ceil_div(n, index_t(16)); }

  // --- what a block has of them ---

  /// Of blocks that share strips.
  TENON_FN constexpr index_t groups() const {
    return max_of(index_t(1), min_of(blocks / splits, all_strips()));
  }
  TENON_FN constexpr index_t part_tiles() const { return 2 * ceil_div(row_tiles(), 2 * splits); }
  TENON_FN constexpr index_t stage_tiles() const { return warps * tiles; }
  TENON_FN constexpr index_t chunks() const { return ceil_div(part_tiles(), stage_tiles()); }
  /// Strips of all matrices, and how many times a block goes along k for them.
  TENON_FN constexpr index_t slots() const { return ceil_div(all_strips(), groups()) * matrices; }
  TENON_FN constexpr index_t passes() const { return ceil_div(slots(), strips); }

  // --- rows, in words of 16 bytes: those of a lane and 32 k ---

  TENON_FN constexpr index_t columns() const { return ceil_div(rows, index_t(8)); }
  TENON_FN constexpr index_t runs() const { return tiles * depth() / 32; } // of a warp's chunk
  TENON_FN constexpr index_t lanes_with_rows() const { return 4 * min_of(rows, index_t(8)); }
  TENON_FN constexpr index_t chunk_words() const { return columns() * runs() * lanes_with_rows(); }
  /// How many chunks' rows a block keeps at once. Rows of two tiles that are normalised have more
  /// room, lest every pass does so again.
  TENON_FN constexpr index_t staged_chunks() const {
    const index_t most = (normalized && columns() > 1 ? 64 : 32) * 1024;
    return max_of(index_t(1), min_of(chunks(), most / (16 * chunk_words() * warps)));
  }

  // --- sums ---

  TENON_FN constexpr index_t sums_of_strip() const { return rows > 1 ? 128 * columns() : 16; }
  /// Strips of a pass that one of the blocks of a group finishes.
  TENON_FN constexpr index_t owned() const {
    return ceil_div(strips / matrices, splits) * matrices;
  }
  /// Passes whose sums have room of their own: of blocks that share strips all, since nobody knows
  /// when the others send; else two in turn where sums are few, so that one barrier a pass will do.
  TENON_FN constexpr index_t areas() const {
    return splits > 1 ? passes() : min_of(passes(), index_t(rows > 1 ? 1 : 2));
  }

  // --- shared memory: the ring, rows, sums, statistics of rows, barriers ---

  TENON_FN constexpr index_t stage_bytes() const {
    return stage_tiles() * (tile_bytes + scale_bytes());
  }
  /// Stages that are on their way while the ring fills: enough for the whole bandwidth (0.7 us of
  /// an H100's are 18 KB of each multiprocessor).
  TENON_FN constexpr index_t stages_ahead() const {
    return min_of(stages, ceil_div(index_t(24 * 1024), stage_bytes()));
  }
  TENON_FN constexpr index_t rows_at() const { return stages * stage_bytes(); }
  TENON_FN constexpr index_t sums_at() const {
    return rows_at() + staged_chunks() * chunk_words() * warps * 16;
  }
  TENON_FN constexpr index_t area_bytes() const {
    return owned() * splits * warps * sums_of_strip() * 4;
  }
  TENON_FN constexpr index_t statistics_at() const { return sums_at() + areas() * area_bytes(); }
  TENON_FN constexpr index_t barriers_at() const {
    return statistics_at() + (normalized ? warps * rows * 8 : 0);
  }
  TENON_FN constexpr index_t needed_bytes() const {
    return barriers_at() + (copy_engine ? 8 * (2 * stages + passes()) : 0);
  }
  /// Two blocks find room on a multiprocessor of sm_90, this kernel's and the next one's, and no
  /// third: it would be one of this kernel that another multiprocessor lacks.
  static constexpr int least_bytes = 78 * 1024;
  TENON_FN constexpr index_t shared_bytes() const {
    return copy_engine ? max_of(needed_bytes(), index_t(least_bytes)) : needed_bytes();
  }
};

} // namespace cuda
} // namespace tenon

#endif
