// Defines `winograd_geometry`: the threads and the shared memory of winograd's kernel.
#ifndef TENON_RUNTIME_CUDA_WINOGRAD_GEOMETRY_H
#define TENON_RUNTIME_CUDA_WINOGRAD_GEOMETRY_H

#include "common/arithmetic.h"

namespace tenon {
namespace cuda {

struct winograd_geometry {
  index_t tile_t, tile_n, tile_c, warps, stages; // the schedule

  TENON_FN constexpr index_t threads() const { return 32 * warps; }
  // Floats. Those beyond a row keep writers of a column and readers of 16 bytes apart.
  TENON_FN constexpr index_t v_pitch() const { return tile_t + 4; }
  TENON_FN constexpr index_t v_size() const { return 16 * tile_c * v_pitch(); }
  TENON_FN constexpr index_t u_size() const { return 16 * tile_c * tile_n; }
  static constexpr int back_pitch = 36; // of sums of 32 filters
  TENON_FN constexpr index_t back_size() const { return 16 * tile_t * back_pitch; }

  TENON_FN constexpr index_t shared_bytes() const {
    return max_of(stages * (v_size() + u_size()), back_size()) * 4;
  }
};

} // namespace cuda
} // namespace tenon

#endif
