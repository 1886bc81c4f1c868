// Defines the configuration of depthwise that its tests share.
#pragma once

#include "cuda/depthwise/kernel.cuh"
#include "shared/harness.h"

namespace test {

template <int V, int Columns, index_t C, index_t M, index_t K, index_t Stride, index_t Dilation,
          bool Whole>
struct depthwise_case : cuda::window_defaults {
  static constexpr bool whole_runs = Whole;
  static constexpr int vector = V, columns = Columns;
  dyn batch, in_h, in_w, out_h, out_w, pad_top, pad_left;
  static constexpr fixed<C> channels{};
  static constexpr fixed<M> multiplier{};
  static constexpr fixed<K> kernel_h{}, kernel_w{};
  static constexpr fixed<Stride> stride_h{}, stride_w{};
  static constexpr fixed<Dilation> dilation_h{}, dilation_w{};

  /// n images of h x w pixels, with `pad` on each side.
  void set_image(index_t n, index_t h, index_t w, index_t pad) {
    const index_t span = Dilation * (K - 1) + 1;
    batch = n, in_h = h, in_w = w, pad_top = pad, pad_left = pad;
    out_h = (h + 2 * pad - span) / Stride + 1, out_w = (w + 2 * pad - span) / Stride + 1;
  }
};

} // namespace test
