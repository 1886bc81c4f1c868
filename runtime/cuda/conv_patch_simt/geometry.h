// Defines `conv_patch_simt_geometry`: the patch, the parts that warps take, and the shared memory
// of conv_patch_simt's kernel.
#ifndef TENON_RUNTIME_CUDA_CONV_PATCH_SIMT_GEOMETRY_H
#define TENON_RUNTIME_CUDA_CONV_PATCH_SIMT_GEOMETRY_H

#include "common/arithmetic.h"

namespace tenon {
namespace cuda {

struct conv_patch_simt_geometry {
  index_t channels; // of a group
  index_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w;
  index_t tile_h, tile_w, tile_groups, tile_n, thread_m, thread_n, lanes_n; // the schedule

  /// The patch. Columns that neighbouring outputs read at one tap are neighbours, whatever the
  /// stride; planes are an odd number of runs, for the banks of those who fill it.
  TENON_FN constexpr index_t vector() const { // channels of a run
    return channels % 4 == 0 ? 4 : channels % 2 == 0 ? 2 : 1;
  }
  TENON_FN constexpr index_t group_runs() const { return channels / vector(); }
  TENON_FN constexpr index_t tile_runs() const { return tile_groups * group_runs(); }
  TENON_FN constexpr index_t rows() const {
    return (tile_h - 1) * stride_h + (kernel_h - 1) * dilation_h + 1;
  }
  TENON_FN constexpr index_t columns() const {
    return (tile_w - 1) * stride_w + (kernel_w - 1) * dilation_w + 1;
  }
  TENON_FN constexpr index_t phase() const { return ceil_div(columns(), stride_w); }
  TENON_FN constexpr index_t pitch() const { return stride_w * phase(); }
  TENON_FN constexpr index_t plane() const { return rows() * pitch() | 1; } // in runs

  TENON_FN constexpr index_t group_weights() const {
    return kernel_h * kernel_w * channels * tile_n;
  }
  TENON_FN constexpr index_t patch_at() const { // in floats, behind the weights
    return ceil_div(tile_groups * group_weights(), index_t(4)) * 4;
  }
  TENON_FN constexpr index_t shared_bytes() const {
    return (patch_at() + tile_runs() * plane() * vector()) * 4;
  }

  /// Parts of a group's tile, pixels and filters; warps take those of all groups in turn.
  TENON_FN constexpr index_t part_m() const { return thread_m * (32 / lanes_n); }
  TENON_FN constexpr index_t part_n() const { return thread_n * lanes_n; }
  TENON_FN constexpr index_t parts_m() const { return ceil_div(tile_h * tile_w, part_m()); }
  TENON_FN constexpr index_t parts_n() const { return tile_n / part_n(); }
  TENON_FN constexpr index_t parts() const { return tile_groups * parts_n() * parts_m(); }
};

} // namespace cuda
} // namespace tenon

#endif
