// Defines where the window of a convolution lies in views over (n, c, h, w) or, of volumes, over
// (n, c, d, h, w), and which of its taps are inside.
#ifndef TENON_RUNTIME_CPU_CONV_WINDOW_H
#define TENON_RUNTIME_CPU_CONV_WINDOW_H

#include "common/base.h"

namespace tenon {
namespace cpu {
namespace detail {
using namespace tenon::detail;

/// The taps a tile sums over.
struct conv_window {
  index_t kz_begin, kz_end, ky_begin, ky_end, kx_begin, kx_end;
};

/// A range of taps along one dimension.
struct tap_span {
  index_t begin, end;
};

/// Those inside [0, extent) of `kernel` taps whose first meets element `first`.
TENON_FN tap_span conv_taps(index_t first, index_t kernel, index_t dilation, index_t extent) {
  tap_span taps{0, kernel};
  if (first < 0)
    taps.begin = ceil_div(-first, dilation);
  if (first + (kernel - 1) * dilation >= extent)
    taps.end = extent > first ? ceil_div(extent - first, dilation) : 0;
  return taps;
}

/// A point of views over (n, c, h, w), or over (n, c, d, h, w).
template <int Rank> struct conv_point {
  index_t at[Rank];
  TENON_FN conv_point(index_t n, index_t c, index_t d, index_t h, index_t w) {
    at[0] = n;
    at[1] = c;
    if constexpr (Rank == 5)
      at[2] = d;
    (void)d;
    at[Rank - 2] = h;
    at[Rank - 1] = w;
  }
};

/// All taps of an output whose first one meets `origin`, but the rows and planes outside the image.
template <int Rank, class Cfg>
TENON_FN conv_window conv_taps_of(const Cfg &cfg, const index_t *origin) {
  const tap_span rows = conv_taps(origin[Rank - 2], cfg.kernel_h, cfg.dilation_h, cfg.in_h);
  tap_span planes{0, 1};
  if constexpr (Rank == 5)
    planes = conv_taps(origin[2], cfg.kernel_d, cfg.dilation_d, cfg.in_d);
  return {planes.begin, planes.end, rows.begin, rows.end, 0, index_t(cfg.kernel_w)};
}

/// Column `iw` of the input row that row ky of plane kz of the taps meets.
template <int Rank, class Cfg>
TENON_FN conv_point<Rank> conv_tap_row(const Cfg &cfg, const index_t *origin, index_t kz,
                                       index_t ky, index_t iw) {
  const index_t front = Rank == 5 ? origin[2] + kz * index_t(cfg.dilation_d) : 0;
  return {origin[0], origin[1], front, origin[Rank - 2] + ky * index_t(cfg.dilation_h), iw};
}

} // namespace detail
} // namespace cpu
} // namespace tenon

#endif
