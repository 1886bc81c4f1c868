// Defines `attention_geometry` and `attention_sm90_geometry`: the tiles and the shared memory of
// attention's kernels.
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

/// One part of what is added to scores (common/attention_part.h), of elements of so many bytes, for
/// a warp's 16 queries and tiles of so many keys (tile_parts.cuh).
struct attention_part_geometry {
  index_t step, extent, bytes;

  TENON_FN constexpr bool is_steady(index_t keys) const {
    return step == 1 && extent % 8 == 0 && keys % extent == 0;
  }
  TENON_FN constexpr bool is_coarse(index_t keys) const {
    return step % keys == 0 || (step % 8 == 0 && keys % step == 0);
  }
  /// Runs of a tile's keys that have one coordinate.
  TENON_FN constexpr index_t runs(index_t keys) const { return max_of(index_t(1), keys / step); }
  /// Of a row in shared memory, an odd number of words so that rows are spread over the banks.
  TENON_FN constexpr index_t staged_words(index_t keys) const {
    return is_steady(keys) || is_coarse(keys) ? 0
                                              : ceil_div(extent * bytes, index_t(4)) / 2 * 2 + 1;
  }
  /// Registers of a thread.
  TENON_FN constexpr index_t held(index_t keys) const {
    return is_steady(keys) ? extent * bytes / 8 : is_coarse(keys) ? 2 * runs(keys) + 4 : 4;
  }
};

/// Of the kernel by warpgroups. Tiles in shared memory are blocks of 64 columns, rows of 128 bytes.
struct attention_sm90_geometry {
  index_t warpgroups, teams, keys, stages, blocks; // the schedule
  index_t d, e;                                    // of a query and key, and of a value
  index_t staged = 0;                              // words of a query's parts in shared memory

  /// What products take: steps of 16 along d, widths of 16 or of multiples of 32.
  TENON_FN constexpr index_t depth() const { return ceil_div(d, index_t(16)) * 16; }
  TENON_FN constexpr index_t width() const { return e <= 16 ? 16 : ceil_div(e, index_t(32)) * 32; }
  TENON_FN constexpr index_t depth_blocks() const { return ceil_div(d, index_t(64)); }
  TENON_FN constexpr index_t width_blocks() const { return ceil_div(e, index_t(64)); }

  TENON_FN constexpr index_t queries() const { return 64 * warpgroups / teams; } // of a block
  TENON_FN constexpr index_t threads() const { return 128 * (warpgroups + 1); }

  TENON_FN constexpr index_t query_bytes() const { return depth_blocks() * queries() * 128; }
  TENON_FN constexpr index_t key_bytes() const { return depth_blocks() * keys * 128; }
  TENON_FN constexpr index_t value_bytes() const { return width_blocks() * keys * 128; }
  /// Results turn through the place of queries, which values may outgrow.
  TENON_FN constexpr index_t keys_at() const {
    return max_of(query_bytes(), width_blocks() * queries() * 128);
  }
  TENON_FN constexpr index_t values_at() const { return keys_at() + stages * key_bytes(); }
  TENON_FN constexpr index_t barriers_at() const { return values_at() + stages * value_bytes(); }
  /// What a thread of a team that joins another sends: its sums, two maxima and two totals.
  TENON_FN constexpr index_t sent() const { return width() / 2 + 4; }
  TENON_FN constexpr index_t joining_bytes() const {
    return (teams - 1) * (warpgroups / teams) * 128 * sent() * 4;
  }
  TENON_FN constexpr index_t barrier_bytes() const { return (1 + 4 * stages) * 8; }
  /// Every warp has its queries' parts.
  TENON_FN constexpr index_t staged_at() const { return barriers_at() + barrier_bytes(); }
  TENON_FN constexpr index_t staged_bytes() const { return 64 * warpgroups * staged * 4; }
  TENON_FN constexpr index_t shared_bytes() const { return staged_at() + staged_bytes(); }

  /// Registers of a thread: an even share is launched with; consumers take what the producer gives.
  static constexpr index_t producer_registers = 24, most_registers = 240;
  TENON_FN constexpr index_t even_share() const {
    return min_of(65536 / blocks / threads(), index_t(255)) / 8 * 8;
  }
  TENON_FN constexpr bool moves_registers() const { return even_share() < 224; }
  TENON_FN constexpr index_t consumer_registers() const {
    return min_of(most_registers,
                  (even_share() + (even_share() - producer_registers) / warpgroups) / 8 * 8);
  }
  /// What a consumer needs for its sums, scores, weights and `held` numbers that are added to
  /// scores, and beside them. Where all queries share a bias, that of a tile's keys is held.
  TENON_FN constexpr index_t needed_registers(index_t held) const {
    return width() / 2 + keys / 2 + keys / 4 + held + 24;
  }
  /// The operands of one instruction have to fit into the share that is launched with.
  TENON_FN constexpr bool fits_registers(index_t held) const {
    return needed_registers(held) <= consumer_registers() &&
           max_of(width(), keys) / 2 + 24 <= even_share();
  }
};

} // namespace cuda
} // namespace tenon

#endif
