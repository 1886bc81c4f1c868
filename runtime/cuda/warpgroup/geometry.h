// Defines `warpgroup_patch_geometry`: the threads and the shared memory of kernels that multiply
// from patches of an image by warpgroups (patch.cuh).
#ifndef TENON_RUNTIME_CUDA_WARPGROUP_GEOMETRY_H
#define TENON_RUNTIME_CUDA_WARPGROUP_GEOMETRY_H

#include "cuda/tile/geometry.h"

namespace tenon {
namespace cuda {

struct warpgroup_patch_geometry {
  patch_geometry patch; // tiles are tile_w outputs wide, of one group
  index_t tile_n, consumers;
  index_t own_bytes; // of the kernel, beside what is counted here

  static constexpr int tile_w = 64;   // as many rows as one multiplication has
  static constexpr int filling = 256; // threads that fill patches
  TENON_FN constexpr index_t multiplying() const { return 128 * consumers; } // threads
  TENON_FN constexpr index_t threads() const { return multiplying() + filling; }

  /// Of K, two runs each.
  TENON_FN constexpr index_t steps() const { return ceil_div(patch.runs(), index_t(2)); }
  TENON_FN constexpr bool ends_odd() const { return patch.runs() % 2 != 0; }

  // Bytes, and where things begin: weights, two stages of patches, zeros, barriers.
  TENON_FN constexpr index_t run_bytes() const { return tile_n * 16; } // of the weights
  TENON_FN constexpr index_t patch_bytes() const { return patch.size() * 2; }
  /// Cells of a second patch lack what lies beyond windows that end within them.
  TENON_FN constexpr index_t stage_bytes() const {
    return (patch.has_halves() ? 2 : 1) * patch_bytes();
  }
  TENON_FN constexpr index_t patches_at() const { return 2 * steps() * run_bytes(); }
  TENON_FN constexpr index_t zeros_at() const { return patches_at() + 2 * stage_bytes(); }
  TENON_FN constexpr index_t barriers_at() const { return zeros_at() + (ends_odd() ? 1024 : 0); }
  /// Behind two barriers of 8 bytes for each stage.
  TENON_FN constexpr index_t own_at() const { return barriers_at() + 32; }
  TENON_FN constexpr index_t shared_bytes() const { return own_at() + own_bytes; }

  /// Bytes from a window's first cell to a run.
  TENON_FN constexpr index_t run_at(index_t run) const {
    return patch.offset(run) * 2 + (patch.is_half(run) ? patch_bytes() : 0);
  }
  /// Whether the second run of each pair lies behind the first: descriptors have no distances
  /// backwards.
  TENON_FN constexpr bool runs_ascend() const {
    for (index_t run = 0; run + 1 < patch.runs(); run += 2)
      if (run_at(run + 1) < run_at(run))
        return false;
    return true;
  }
};

} // namespace cuda
} // namespace tenon

#endif
