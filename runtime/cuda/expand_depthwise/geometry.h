// Defines `expand_depthwise_geometry`: the pixels that a tile needs, and the shared memory of
// expand_depthwise's kernel.
#ifndef TENON_RUNTIME_CUDA_EXPAND_DEPTHWISE_GEOMETRY_H
#define TENON_RUNTIME_CUDA_EXPAND_DEPTHWISE_GEOMETRY_H

#include "common/arithmetic.h"

namespace tenon {
namespace cuda {

struct expand_depthwise_geometry {
  index_t depth, channels; // of the image, and of what is made of it
  index_t kernel_h, kernel_w, stride_h, stride_w;
  index_t tile_h, tile_w, chunk, warps; // the schedule
  bool widened;

  TENON_FN constexpr index_t threads() const { return 32 * warps; }
  TENON_FN constexpr index_t chunks() const { return ceil_div(channels, chunk); }
  TENON_FN constexpr index_t taps() const { return kernel_h * kernel_w; }
  /// Pixels that the windows of a tile cover; they are multiplied in blocks of 16.
  TENON_FN constexpr index_t covered_h() const { return (tile_h - 1) * stride_h + kernel_h; }
  TENON_FN constexpr index_t covered_w() const { return (tile_w - 1) * stride_w + kernel_w; }
  TENON_FN constexpr index_t pixels() const { return covered_h() * covered_w(); }
  TENON_FN constexpr index_t row_blocks() const { return ceil_div(pixels(), index_t(16)); }
  TENON_FN constexpr index_t steps() const { return ceil_div(depth, index_t(16)); } // along K

  // Odd multiples of 16 bytes, and of 32: rows that are read and written together lie in different
  // banks.
  TENON_FN constexpr index_t depth_pitch() const { return 16 * steps() + 8; }
  TENON_FN constexpr index_t chunk_pitch() const { return chunk + 8; }

  // Bytes: pixels, what is made of them, filters where they are widened, two stages of weights.
  TENON_FN constexpr index_t pixel_bytes() const { return row_blocks() * 16 * depth_pitch() * 2; }
  TENON_FN constexpr index_t made_bytes() const {
    return row_blocks() * 16 * chunk_pitch() * (widened ? 4 : 2);
  }
  TENON_FN constexpr index_t filter_bytes() const { return widened ? taps() * chunk * 4 : 0; }
  TENON_FN constexpr index_t expand_bytes() const { return chunk * depth_pitch() * 2; }
  TENON_FN constexpr index_t stage_bytes() const { return expand_bytes() + taps() * chunk * 2; }
  TENON_FN constexpr index_t stages_at() const {
    return pixel_bytes() + made_bytes() + filter_bytes();
  }
  TENON_FN constexpr index_t shared_bytes() const { return stages_at() + 2 * stage_bytes(); }
};

} // namespace cuda
} // namespace tenon

#endif
