// Defines the patches of conv_bytes: bytes of windows, in lines of words of four.
#ifndef TENON_RUNTIME_CPU_CONV_PATCHES_H
#define TENON_RUNTIME_CPU_CONV_PATCHES_H

#include "cpu/conv.h"

namespace tenon {
namespace cpu {
namespace detail {

/// How the words of one patch follow from its problem.
template <class Cfg> struct byte_runs {
  static constexpr index_t channels = decltype(Cfg::channels)::value,
                           kernel_h = decltype(Cfg::kernel_h)::value,
                           kernel_w = decltype(Cfg::kernel_w)::value;
  static constexpr bool along_row = channels == 1; // a run is a row of taps
  static constexpr index_t bytes = along_row ? kernel_w : channels,
                           words = ceil_div(bytes, 4) * kernel_h * (along_row ? 1 : kernel_w);
  /// A whole number of vectors, which may be converted beyond the end.
  static constexpr index_t room = ceil_div(words, native_lanes::width) * native_lanes::width;
};

/// N bytes in whole vectors; the last one may overlap that before.
template <index_t N> TENON_FN void copy_bytes(void *to_, const void *from_) {
  constexpr index_t width = 4 * native_lanes::width;
  auto *to = static_cast<char *>(to_);
  const auto *from = static_cast<const char *>(from_);
  if constexpr (N < width)
    memcpy(to, from, N);
  else {
    const auto move = [&](index_t i) TENON_LAMBDA {
      i32<native_lanes> v;
      memcpy(&v, from + i, width);
      memcpy(to + i, &v, width);
    };
    for (index_t i = 0; i + width <= N; i += width)
      move(i);
    if constexpr (N % width != 0)
      move(N - width);
  }
}

/// The bytes of the patch whose window starts at row ih, column iw.
template <class Cfg, class X>
TENON_FN void gather_patch(const Cfg &cfg, const X &x, index_t n, index_t ih, index_t iw,
                           int32_t zero, uint8_t *to) {
  using T = bare<typename X::element>;
  using R = byte_runs<Cfg>;
  constexpr index_t kernel_w = R::kernel_w, channels = R::channels,
                    dilation_w = decltype(cfg.dilation_w)::value, run = ceil_div(R::bytes, 4) * 4,
                    row_bytes = R::along_row ? run : run * kernel_w;
  const auto channel = x.strides.template get<1>();
  const auto column = x.strides.template get<3>();
  constexpr bool neighbours = R::along_row || is_same<bare<decltype(channel)>, fixed<1>>;
  constexpr bool whole_rows = neighbours && run == R::bytes && dilation_w == 1 &&
                              is_same<bare<decltype(column)>, fixed<channels>>;
  const index_t in_w = cfg.in_w;
  const bool inside = iw >= 0 && iw + (kernel_w - 1) * dilation_w < in_w;
  for (index_t ky = 0; ky < R::kernel_h; ++ky, to += row_bytes) {
    const index_t h = ih + ky * index_t(cfg.dilation_h);
    if (h < 0 || h >= index_t(cfg.in_h)) {
      memset(to, zero, size_t(row_bytes));
      continue;
    }
    const index_t at[4] = {n, 0, h, 0};
    const T *row = x.data + x.offset(at);
    if constexpr (whole_rows)
      if (inside) {
        copy_bytes<row_bytes>(to, row + iw * channels);
        continue;
      }
    for (index_t kx = 0; kx < kernel_w; ++kx) {
      const index_t v = iw + kx * dilation_w;
      const T *from = row + (inside || (v >= 0 && v < in_w) ? v : 0) * index_t(column);
      uint8_t *tap = to + kx * (R::along_row ? 1 : run);
      if (!inside && (v < 0 || v >= in_w))
        memset(tap, zero, size_t(channels));
      else if constexpr (neighbours)
        copy_bytes<channels>(tap, from);
      else
        for (index_t c = 0; c < channels; ++c)
          tap[c] = uint8_t(from[c * index_t(channel)]);
    }
  }
}

/// The same for an output at a place (row, column).
template <class Cfg, class X>
TENON_FN void gather_window(const Cfg &cfg, const X &x, index_t n, const index_t (&place)[2],
                            int32_t zero, uint8_t *to) {
  gather_patch(cfg, x, n, place[0] * index_t(cfg.stride_h) - index_t(cfg.pad_top),
               place[1] * index_t(cfg.stride_w) - index_t(cfg.pad_left), zero, to);
}

/// Rows and columns of outputs that follow one another.
template <class Cfg>
TENON_FN void make_places(const Cfg &cfg, index_t first, index_t count, index_t (*places)[2]) {
  const index_t out_w = cfg.out_w;
  index_t oh = first / out_w, ow = first % out_w;
  for (index_t p = 0; p < count; ++p) {
    places[p][0] = oh;
    places[p][1] = ow;
    if (++ow == out_w) {
      ow = 0;
      ++oh;
    }
  }
}

} // namespace detail
} // namespace cpu
} // namespace tenon

#endif
