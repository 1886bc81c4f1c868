// Defines pooling: largest element or mean of 2-d windows (1-d with h = 1).
//
//   y[n, c, oh, ow] = body(max or mean of the elements of the window inside x, ins...)
//
// Lanes run along the channels; each output vector folds its window, narrowed to the image first,
// so that padding is never read. NaN wins a maximum. An empty window gives the lowest value, or 0.
//
// Config (derive from pooling_defaults; `fixed` or `dyn` unless noted):
//   batch, channels, out_h, out_w, in_h, in_w
//   kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w
//   pad_top, pad_left, pad_bottom, pad_right   the last two count for count_include_pad only
//   kind          type: pooling_max, pooling_mean, or pooling_mean_padded (divides by the taps
//                 inside the padded image)
//   accumulator   type: what a mean adds up in; the element type for max
//   lanes         type
// x: view over (n, c, h, w), c stride fixed<1> (NHWC) for vector loads.
// outs, ins: over (n, c, oh, ow).
#ifndef TENON_RUNTIME_CPU_POOLING_H
#define TENON_RUNTIME_CPU_POOLING_H

#include "common/scalar_arith.h"
#include "cpu/epilogue.h"
#include "cpu/odometer.h"
#include "cpu/pool.h"

namespace tenon {
namespace cpu {

struct pooling_max {
  template <class V> static TENON_FN V start() {
    using T = tenon::detail::element_t<V>;
    if constexpr (tenon::detail::is_float<T>)
      return V{} - T(INFINITY);
    else
      return V{} + T(tenon::detail::is_signed<T> ? T(1) << (8 * sizeof(T) - 1) : 0);
  }
  template <class L, class V> static TENON_FN V fold(V acc, V x) { return max<L>(acc, x); }
  template <class L, class V> static TENON_FN V finish(V acc, index_t, index_t) { return acc; }
};
struct pooling_mean {
  template <class V> static TENON_FN V start() { return V{}; }
  template <class L, class V> static TENON_FN V fold(V acc, V x) { return acc + x; }
  template <class L, class V> static TENON_FN V finish(V acc, index_t inside, index_t) {
    using T = tenon::detail::element_t<V>;
    return inside > 0 ? acc / (V{} + T(inside)) : V{};
  }
};
struct pooling_mean_padded : pooling_mean {
  template <class L, class V> static TENON_FN V finish(V acc, index_t, index_t padded) {
    return pooling_mean::finish<L>(acc, padded, padded);
  }
};

struct pooling_defaults {
  static constexpr fixed<1> stride_h{}, stride_w{}, dilation_h{}, dilation_w{};
  static constexpr fixed<0> pad_top{}, pad_left{}, pad_bottom{}, pad_right{};
  using lanes = native_lanes;
};

namespace detail {

/// The taps t of a window that lie inside: first + t*step in [0, extent) for t in [begin, end).
struct tap_range {
  index_t begin, end, padded_end;
};
TENON_FN tap_range taps_inside(index_t first, index_t step, index_t taps, index_t extent,
                               index_t padding) {
  const auto below = [&](index_t limit) {
    const index_t count = first >= limit ? 0 : ceil_div(limit - first, step);
    return count < taps ? count : taps;
  };
  const tap_range r{below(0), below(extent), below(extent + padding)};
  return {r.begin, r.end < r.begin ? r.begin : r.end, r.padded_end};
}

template <class Cfg, class X, class Count, class Outs, class Ins, class Body>
TENON_FN void pooling_row(const Cfg &cfg, const X &x, index_t *at, Count count, const Outs &outs,
                          const Ins &ins, const Body &body) {
  using L = typename Cfg::lanes;
  using Kind = typename Cfg::kind;
  using V = typename L::template of<typename Cfg::accumulator>;
  const index_t ih = at[2] * index_t(cfg.stride_h) - index_t(cfg.pad_top);
  const tap_range rows = taps_inside(ih, cfg.dilation_h, cfg.kernel_h, cfg.in_h, cfg.pad_bottom);
  for (at[3] = 0; at[3] < index_t(cfg.out_w); ++at[3]) {
    const index_t iw = at[3] * index_t(cfg.stride_w) - index_t(cfg.pad_left);
    const tap_range columns =
        taps_inside(iw, cfg.dilation_w, cfg.kernel_w, cfg.in_w, cfg.pad_right);
    V acc = Kind::template start<V>();
    for (index_t ky = rows.begin; ky < rows.end; ++ky) {
      index_t point[4] = {at[0], at[1], ih + ky * index_t(cfg.dilation_h), 0};
      for (index_t kx = columns.begin; kx < columns.end; ++kx) {
        point[3] = iw + kx * index_t(cfg.dilation_w);
        acc = Kind::template fold<L>(acc, convert<V>(load_at<L, 1>(x, point, count)));
      }
    }
    const index_t inside = (rows.end - rows.begin) * (columns.end - columns.begin);
    apply_body<L, 1>(body, outs, ins, at, count,
                     Kind::template finish<L>(acc, inside, rows.padded_end * columns.padded_end));
  }
}

} // namespace detail

template <class Cfg, class X, class Outs, class Ins, class Body>
void pooling(const Cfg &cfg, const X &x, const Outs &outs, const Ins &ins, const Body &body,
             pool &workers) {
  using namespace detail;
  constexpr int width = Cfg::lanes::width;
  odometer<3> space;
  space.extents[0] = cfg.batch;
  space.extents[1] = cfg.out_h;
  space.extents[2] = ceil_div(cfg.channels, width);
  const index_t row_work = index_t(cfg.out_w) * index_t(cfg.kernel_h) * index_t(cfg.kernel_w);
  workers.parallel_for(space.size(), 1 + 8192 / (row_work + 1), [&](index_t begin, index_t end) {
    odometer<3> it = space;
    it.seek(begin);
    for (index_t u = begin; u < end; ++u, it.step()) {
      const index_t channel = it.at[2] * width, left = index_t(cfg.channels) - channel;
      index_t at[4] = {it.at[0], channel, it.at[1], 0};
      if (left >= width)
        pooling_row(cfg, x, at, fixed<width>{}, outs, ins, body);
      else if constexpr (!decltype(cfg.channels)::is_fixed)
        pooling_row(cfg, x, at, dyn(left), outs, ins, body);
      else if constexpr (decltype(cfg.channels)::value % width != 0)
        pooling_row(cfg, x, at, fixed<decltype(cfg.channels)::value % width>{}, outs, ins, body);
    }
  });
}

} // namespace cpu
} // namespace tenon

#endif
