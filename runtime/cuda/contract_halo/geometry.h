// Defines `contract_halo_geometry`: tiles of pixels, what their windows cover, and the shared
// memory and blocks of contract_halo's kernel.
#ifndef TENON_RUNTIME_CUDA_CONTRACT_HALO_GEOMETRY_H
#define TENON_RUNTIME_CUDA_CONTRACT_HALO_GEOMETRY_H

#include "common/arithmetic.h"

namespace tenon {
namespace cuda {

/// Int: what extents are counted in, `int` in kernels.
template <class Int> struct contract_halo_geometry {
  Int tile_m, tile_n, tile_k, consumers, stages; // the schedule
  Int chunks, tiles_n;                           // of tile_k channels, of tile_n filters
  Int kernel_h, kernel_w, dilation_h, dilation_w;
  Int batch, out_h, out_w;

  static constexpr int element_bytes = 2;
  static constexpr int tile_w = 8; // pixels
  TENON_FN constexpr Int tile_h() const { return tile_m / tile_w; }
  /// Pixels that the windows of a tile cover.
  TENON_FN constexpr Int covered_w() const { return tile_w + (kernel_w - 1) * dilation_w; }
  TENON_FN constexpr Int covered_h() const { return tile_h() + (kernel_h - 1) * dilation_h; }

  /// Tiles of pixels along each dimension of an image, and of all images.
  TENON_FN constexpr Int across() const { return ceil_div(out_w, Int(tile_w)); }
  TENON_FN constexpr Int down() const { return ceil_div(out_h, tile_h()); }
  TENON_FN constexpr Int tiles() const { return batch * across() * down(); }

  /// Along K: a tap of a chunk each.
  TENON_FN constexpr Int steps() const { return chunks * (kernel_h * kernel_w); }

  TENON_FN constexpr Int weight_bytes() const { return steps() * tile_n * tile_k * element_bytes; }
  TENON_FN constexpr Int patch_bytes() const {
    return covered_w() * covered_h() * tile_k * element_bytes;
  }
  /// From one patch to the next: swizzles have patterns of a kilobyte.
  TENON_FN constexpr Int patch_pitch() const { return ceil_div(patch_bytes(), Int(1024)) * 1024; }
  TENON_FN constexpr Int barriers_at() const {
    return weight_bytes() + consumers * stages * patch_pitch();
  }
  /// Barriers have 8 bytes each: one of the weights, two of each buffer.
  TENON_FN constexpr Int shared_bytes() const {
    return barriers_at() + 8 * (1 + 2 * consumers * stages);
  }

  /// A warpgroup that multiplies and a warp that copies, for each consumer.
  static constexpr int consumer_threads = 128 + 32;
  TENON_FN constexpr Int threads() const { return consumer_threads * consumers; }
  /// Of a multiprocessor each at most; blocks of the same filters share the tiles.
  TENON_FN constexpr Int blocks(Int multiprocessors) const {
    return tiles_n * min_of(ceil_div(tiles(), consumers), most_of_filters(multiprocessors));
  }
  TENON_FN constexpr Int most_of_filters(Int multiprocessors) const {
    return max_of(multiprocessors / tiles_n, Int(1));
  }
  /// How many a consumer takes, at most.
  TENON_FN constexpr Int most_tiles(Int multiprocessors) const {
    return ceil_div(tiles(), consumers * most_of_filters(multiprocessors));
  }
};

} // namespace cuda
} // namespace tenon

#endif
