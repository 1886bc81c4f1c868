// Defines the patches of conv_bytes: elements of windows of one byte or two, in lines of words of
// four bytes.
#ifndef TENON_RUNTIME_CPU_CONV_PATCHES_H
#define TENON_RUNTIME_CPU_CONV_PATCHES_H

#include "cpu/conv.h"

namespace tenon {
namespace cpu {
namespace detail {

/// How the words of one patch follow from its problem: runs are the channels of a tap, or the taps
/// of a row of one channel; `element` bytes each.
template <class Cfg> struct byte_runs {
  static constexpr index_t channels = decltype(Cfg::channels)::value,
                           kernel_h = decltype(Cfg::kernel_h)::value,
                           kernel_w = decltype(Cfg::kernel_w)::value;
  static constexpr bool along_row = Cfg::row_runs;
  static constexpr index_t element = Cfg::element_bytes,
                           bytes = element * (along_row ? kernel_w : channels),
                           runs = kernel_h * (along_row ? channels : kernel_w),
                           words = ceil_div(bytes, 4) * runs;
  /// A whole number of vectors, which may be converted beyond the end; one more where all patches
  /// would begin in the same set of a cache.
  static constexpr index_t width = native_lanes::width, least = ceil_div(words, width) * width,
                           room = least % 1024 == 0 ? least + width : least;
};

/// The words of a patch with 1 for each of its bytes, 0 in the tails of runs and behind the last.
template <class Cfg> struct bytes_of_patch {
  using R = byte_runs<Cfg>;
  static constexpr index_t groups = ceil_div(R::bytes, 4), depth = R::bytes * R::runs;
  static constexpr bool whole = R::bytes % 4 == 0 && R::words == R::room;
  alignas(64) uint32_t ones[whole ? 1 : R::room] = {};

  constexpr bytes_of_patch() {
    for (index_t g = 0; g < (whole ? 1 : R::words); ++g) {
      const index_t left = R::bytes - g % groups * 4;
      ones[g] = 0x01010101u >> (left < 4 ? 8 * (4 - left) : 0);
    }
  }
  static const bytes_of_patch table;
  static TENON_FN i32<native_lanes> from(index_t word) {
    if constexpr (whole)
      return broadcast<native_lanes, int32_t>(0x01010101);
    else
      return convert<i32<native_lanes>>(load<native_lanes>(table.ones + word));
  }
};
template <class Cfg> inline constexpr bytes_of_patch<Cfg> bytes_of_patch<Cfg>::table{};

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

/// Whether a row of taps is one piece of a row of the image.
template <class Cfg, class X> constexpr bool rows_of_neighbours() {
  using R = byte_runs<Cfg>;
  constexpr index_t channels = R::along_row ? 1 : R::channels;
  return (R::along_row || is_same<bare<decltype(X{}.strides.template get<1>())>,
                                  fixed<1>>)&&decltype(Cfg::dilation_w)::value == 1 &&
         is_same<bare<decltype(X{}.strides.template get<3>())>, fixed<channels>>;
}

/// Clears what the last word of a run has beyond its elements: a bf16 there that is no number would
/// not vanish beside a weight of 0.
template <class R> TENON_FN void clear_tail(uint8_t *run) {
  if constexpr (R::element > 1 && R::bytes % 4 != 0)
    memset(run + R::bytes, 0, 4 - R::bytes % 4);
}

/// A row of taps of rows_of_neighbours, in whole words: where weights of 0 are all that integers
/// behind its end meet, reads `beyond` columns there.
template <class Cfg> struct whole_row {
  using R = byte_runs<Cfg>;
  static constexpr index_t column = R::element * (R::along_row ? 1 : R::channels),
                           run = ceil_div(R::bytes, 4) * 4,
                           copied = R::element > 1 ? R::bytes : run,
                           beyond = ceil_div(copied - R::bytes, column);
  static TENON_FN void copy(const void *from_, uint8_t *to) {
    const auto *from = static_cast<const uint8_t *>(from_);
    if constexpr (!R::along_row && run == R::bytes)
      copy_bytes<run * R::kernel_w>(to, from);
    else
      unroll<R::along_row ? 1 : R::kernel_w>([&](auto kx) TENON_LAMBDA {
        copy_bytes<copied>(to + int(kx) * run, from + int(kx) * column);
        clear_tail<R>(to + int(kx) * run);
      });
  }
};

/// One row of taps of one channel, or of all of them; `row` is where the image's row begins.
template <class Cfg, class X>
TENON_FN void gather_row(const Cfg &cfg, const X &x, const bare<typename X::element> *row,
                         index_t iw, bool inside, int32_t zero, uint8_t *to) {
  using R = byte_runs<Cfg>;
  constexpr index_t channels = R::along_row ? 1 : R::channels, kernel_w = R::kernel_w,
                    dilation_w = decltype(cfg.dilation_w)::value, run = ceil_div(R::bytes, 4) * 4;
  const auto channel = x.strides.template get<1>();
  const auto column = x.strides.template get<3>();
  constexpr bool neighbours = R::along_row || is_same<bare<decltype(channel)>, fixed<1>>;
  if constexpr (rows_of_neighbours<Cfg, X>() && (R::along_row || run == R::bytes))
    if (inside) {
      copy_bytes<R::element * channels * kernel_w>(to, row + iw * channels);
      clear_tail<R>(to);
      return;
    }
  const index_t in_w = cfg.in_w;
  for (index_t kx = 0; kx < kernel_w; ++kx) {
    const index_t v = iw + kx * dilation_w;
    const auto *from = row + (inside || (v >= 0 && v < in_w) ? v : 0) * index_t(column);
    uint8_t *tap = to + kx * (R::along_row ? R::element : run);
    if (!inside && (v < 0 || v >= in_w))
      memset(tap, zero, size_t(R::element * channels));
    else if constexpr (neighbours)
      copy_bytes<R::element * channels>(tap, from);
    else
      for (index_t c = 0; c < channels; ++c)
        memcpy(tap + c * R::element, from + c * index_t(channel), R::element);
    if constexpr (!R::along_row)
      clear_tail<R>(tap);
  }
  if constexpr (R::along_row)
    clear_tail<R>(to);
}

/// The bytes of the patch whose window starts at row ih, column iw.
template <class Cfg, class X>
TENON_FN void gather_patch(const Cfg &cfg, const X &x, index_t n, index_t ih, index_t iw,
                           int32_t zero, uint8_t *to) {
  using R = byte_runs<Cfg>;
  constexpr index_t row_bytes = ceil_div(R::bytes, 4) * 4 * (R::along_row ? 1 : R::kernel_w);
  if constexpr (rows_of_neighbours<Cfg, X>())
    if (ih >= 0 && ih + (R::kernel_h - 1) * index_t(cfg.dilation_h) < index_t(cfg.in_h) &&
        iw >= 0 && iw + R::kernel_w + whole_row<Cfg>::beyond <= index_t(cfg.in_w)) {
      const index_t at[4] = {n, 0, ih, iw};
      const auto *corner = x.data + x.offset(at);
      for (index_t c = 0; c < (R::along_row ? R::channels : 1);
           ++c, corner += index_t(x.strides.template get<1>()))
        unroll<R::kernel_h>([&](auto ky) TENON_LAMBDA {
          whole_row<Cfg>::copy(corner + int(ky) * index_t(cfg.dilation_h) *
                                            index_t(x.strides.template get<2>()),
                               to);
          to += row_bytes;
        });
      return;
    }
  const bool inside =
      iw >= 0 && iw + (R::kernel_w - 1) * index_t(cfg.dilation_w) < index_t(cfg.in_w);
  for (index_t c = 0; c < (R::along_row ? R::channels : 1); ++c)
    for (index_t ky = 0; ky < R::kernel_h; ++ky, to += row_bytes) {
      const index_t h = ih + ky * index_t(cfg.dilation_h);
      const index_t at[4] = {n, c, h, 0};
      if (h < 0 || h >= index_t(cfg.in_h))
        memset(to, zero, size_t(row_bytes));
      else
        gather_row(cfg, x, x.data + x.offset(at), iw, inside, zero, to);
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
