// Defines the sizes of what blocks and teams of threads that share a tile exchange: in scratch
// where blocks split K (split_k.cuh), in shared memory where teams do (intra_block_split_k.cuh);
// and `patch_geometry`: the pixels that the windows of a tile of outputs cover, in shared memory
// (patch_loader.cuh).
#ifndef TENON_RUNTIME_CUDA_TILE_GEOMETRY_H
#define TENON_RUNTIME_CUDA_TILE_GEOMETRY_H

#include "common/arithmetic.h"

namespace tenon {
namespace cuda {

/// Bytes of the parts of `tiles` tiles, sums of four bytes each, and of the counters of those who
/// wait for them: one of a tile, or of each part of it that waits by itself.
TENON_FN constexpr index_t split_partial_bytes(index_t tiles, index_t splits, index_t tile_m,
                                               index_t tile_n) {
  return splits > 1 ? tiles * splits * tile_m * tile_n * 4 : 0;
}
TENON_FN constexpr index_t split_counter_bytes(index_t tiles, index_t splits, index_t waiting = 1) {
  return splits > 1 ? tiles * waiting * 4 : 0;
}

/// Bytes of shared memory for teams whose threads have `count` sums of four bytes each.
TENON_FN constexpr index_t team_bytes(index_t teams, index_t team_threads, index_t count) {
  return (teams - 1) * team_threads * count * 4;
}

/// Where elements of the image lie in a patch, and the order of K. A cell is what lies together:
/// of each group one pixel, or two neighbours where 4 channels hold a pixel and windows start at
/// even distances. Cells that neighbouring outputs read at one tap are neighbours, whatever the
/// stride, and cells are an odd number of runs, 8 elements each, so that the rows of ldmatrix lie
/// in different banks.
struct patch_geometry {
  index_t channels; // of a group
  index_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w;
  index_t tile_h, tile_w, tile_groups; // of a block

  TENON_FN constexpr index_t fold() const { // pixels of a cell
    return channels <= 4 && stride_w % 2 == 0 && dilation_w == 1 ? 2 : 1;
  }
  TENON_FN constexpr index_t pixel() const { // channels of a group, rounded up
    return fold() == 2 ? 4 : ceil_div(channels, index_t(8)) * 8;
  }
  TENON_FN constexpr index_t tap_runs() const { return fold() * pixel() / 8; }
  TENON_FN constexpr index_t taps_w() const { return ceil_div(kernel_w, fold()); }     // in cells
  TENON_FN constexpr index_t runs() const { return kernel_h * taps_w() * tap_runs(); } // of K
  TENON_FN constexpr bool has_halves() const { return fold() == 2 && kernel_w % 2 != 0; }
  /// Whether the second half of a run is a pixel beyond the window.
  TENON_FN constexpr bool is_half(index_t run) const {
    return has_halves() && run % taps_w() == taps_w() - 1;
  }

  TENON_FN constexpr index_t step() const { return stride_w / fold(); } // cells between outputs
  TENON_FN constexpr index_t rows() const {
    return (tile_h - 1) * stride_h + (kernel_h - 1) * dilation_h + 1;
  }
  TENON_FN constexpr index_t cells() const {
    return (tile_w - 1) * step() + (taps_w() - 1) * dilation_w + 1;
  }
  TENON_FN constexpr index_t phase() const { return ceil_div(cells(), step()); }
  TENON_FN constexpr index_t cell_runs() const { return tile_groups * tap_runs(); }

  // In elements.
  TENON_FN constexpr index_t cell() const { return (cell_runs() | 1) * 8; }
  TENON_FN constexpr index_t pitch() const { return step() * phase() * cell(); } // of a row
  TENON_FN constexpr index_t size() const { return rows() * pitch(); }
  /// The element where a cell starts.
  TENON_FN constexpr index_t place(index_t row, index_t column) const {
    return row * pitch() + (column % step() * phase() + column / step()) * cell();
  }
  /// From the first cell of a window to a run of K.
  TENON_FN constexpr index_t offset(index_t run) const {
    const index_t tap = run / tap_runs();
    return place(tap / taps_w() * dilation_h, tap % taps_w() * dilation_w) + run % tap_runs() * 8;
  }
};

} // namespace cuda
} // namespace tenon

#endif
