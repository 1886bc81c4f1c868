// Defines `squeeze_excite_geometry`: the parts that blocks of a cluster take, and the shared memory
// of squeeze_excite's kernel.
#ifndef TENON_RUNTIME_CUDA_SQUEEZE_EXCITE_GEOMETRY_H
#define TENON_RUNTIME_CUDA_SQUEEZE_EXCITE_GEOMETRY_H

#include "common/arithmetic.h"

namespace tenon {
namespace cuda {

struct squeeze_excite_geometry {
  index_t channels, hidden, outputs;
  index_t run_length;                          // weights in 16 bytes
  bool is_image;                               // whether the gates meet one
  index_t threads, channel_parts, pixel_parts; // the schedule
  bool staged;

  TENON_FN constexpr index_t blocks() const { return channel_parts * pixel_parts; } // of a cluster
  /// Rows of weights in runs.
  TENON_FN constexpr index_t runs1() const { return ceil_div(channels, run_length); }
  TENON_FN constexpr index_t runs2() const { return ceil_div(hidden, run_length); }
  TENON_FN constexpr index_t padded_hidden() const { return runs2() * run_length; }
  /// A block's part of w1's rows; its outputs.
  TENON_FN constexpr index_t part_runs() const { return ceil_div(runs1(), channel_parts); }
  TENON_FN constexpr index_t part_channels() const { return part_runs() * run_length; }
  TENON_FN constexpr index_t part_outputs() const {
    return is_image ? part_channels() : ceil_div(outputs, blocks());
  }
  /// Threads that share a run of channels, each with some of the pixels; and how many of a
  /// channel's sums are then added up by as many threads.
  TENON_FN constexpr index_t pixel_lanes() const { return threads / part_runs(); }
  TENON_FN constexpr index_t shares() const {
    return min_of(pixel_lanes(), max_of(index_t(1), threads / part_channels()));
  }
  /// Loads of pixels under way.
  TENON_FN constexpr index_t ahead() const { return threads > 512 ? 4 : 8; }
  /// Lanes that share a row of so many runs of weights.
  TENON_FN static constexpr index_t row_lanes(index_t runs) {
    return runs > 16 ? 32 : runs > 8 ? 16 : runs > 4 ? 8 : 4;
  }

  // Bytes, and where things begin, each behind the one before it; first a barrier.
  static constexpr int sums_at = 16;
  TENON_FN constexpr index_t shares_at() const {
    return sums_at + pixel_lanes() * part_channels() * 4;
  }
  TENON_FN constexpr index_t mean_at() const {
    return shares_at() + shares() * part_channels() * 4;
  }
  TENON_FN constexpr index_t own_at() const { return mean_at() + part_channels() * 4; }
  TENON_FN constexpr index_t received_at() const { return own_at() + padded_hidden() * 4; }
  TENON_FN constexpr index_t hidden_at() const {
    return received_at() + blocks() * padded_hidden() * 4;
  }
  TENON_FN constexpr index_t gates_at() const { return hidden_at() + padded_hidden() * 4; }
  TENON_FN constexpr index_t w1_at() const {
    return gates_at() + (is_image ? part_channels() * 4 : 0);
  }
  TENON_FN constexpr index_t w1_bytes() const { return hidden * part_runs() * 16; }
  TENON_FN constexpr index_t w2_bytes() const { return part_outputs() * runs2() * 16; }
  TENON_FN constexpr index_t w2_at() const { return w1_at() + (staged ? w1_bytes() : 0); }
  TENON_FN constexpr index_t shared_bytes() const { return w2_at() + (staged ? w2_bytes() : 0); }
};

} // namespace cuda
} // namespace tenon

#endif
