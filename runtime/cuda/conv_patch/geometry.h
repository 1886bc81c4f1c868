// Defines `conv_patch_geometry`: the parts of warps and the shared memory of conv_patch's kernels.
#ifndef TENON_RUNTIME_CUDA_CONV_PATCH_GEOMETRY_H
#define TENON_RUNTIME_CUDA_CONV_PATCH_GEOMETRY_H

#include "cuda/tile/geometry.h"

namespace tenon {
namespace cuda {

struct conv_patch_geometry {
  patch_geometry patch;
  index_t tile_n, warps_m, warps_n;

  TENON_FN constexpr index_t threads() const { return 32 * warps_m * warps_n; }
  TENON_FN constexpr index_t pixels() const { return patch.tile_h * patch.tile_w; }
  /// Blocks of 8 filters of a group; those of a warp, and its blocks of 16 pixels.
  TENON_FN constexpr index_t group_blocks() const { return tile_n / 8; }
  TENON_FN constexpr index_t blocks_n() const {
    return patch.tile_groups * group_blocks() / warps_n;
  }
  TENON_FN constexpr index_t blocks_m() const { return ceil_div(pixels(), 16 * warps_m); }
  /// Whether a warp takes whole groups, or an even part of one.
  TENON_FN constexpr bool has_even_parts() const {
    return patch.tile_groups * group_blocks() % warps_n == 0 &&
           (blocks_n() % group_blocks() == 0 || group_blocks() % blocks_n() == 0);
  }

  /// Elements from a filter's weights to the next one's: an odd number of runs, for the banks.
  TENON_FN constexpr index_t weights_pitch() const { return (patch.runs() | 1) * 8; }
  TENON_FN constexpr index_t weights_size() const {
    return patch.tile_groups * tile_n * weights_pitch();
  }
  /// Sums of a warp on their way to the epilogue, 16 rows.
  TENON_FN constexpr index_t turn_pitch() const { return 8 * blocks_n() + 4; }
  TENON_FN constexpr index_t turn_floats() const { return 16 * turn_pitch(); }

  TENON_FN constexpr index_t shared_bytes() const {
    return max_of(2 * (weights_size() + patch.size()), 4 * warps_m * warps_n * turn_floats());
  }
};

} // namespace cuda
} // namespace tenon

#endif
