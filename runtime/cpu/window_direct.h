// Defines conv_direct and pooling_direct: convolutions (plain and transposed) and pools over any
// number of spatial dimensions, with operands of any element type and origin, one sum at a time.
// They are the kernels for what the blocked ones do not take (3-d windows, weights known only at
// run time, integers, computed operands) and make no claim to speed.
//
//   conv_direct(cfg, x, x_zero, w, w_zero, outs, ins, body, workers)
//     y[n, g*filters + k, o...] =
//         body(sum over c, t of (x - x_zero)[n, g*channels + c, p...] * (w - w_zero), ins...)
//     plain:      p = o*stride + t*dilation - pad, w at [g*filters + k, c, t...]
//     transposed: p such that o = p*stride + t*dilation - pad, w at [g*channels + c, k, t...]
//     Nothing is added where p lies outside x.
//   pooling_direct(cfg, x, outs, ins, body, workers)
//     kinds and rules of pooling.h
//
// Config:
//   batch, in, out, kernel    extents; the last three are dims<...>, one entry a spatial dimension
//   strides, dilations, pads  static constexpr index_t[], one entry a spatial dimension
//   accumulator               type; integers wrap
//   of conv_direct            groups, channels, filters (of one group), transposed (static
//                             constexpr bool)
//   of pooling_direct         channels, pads_end (index_t[]), kind
// x: view or computed_view over (n, c, spatial...); w: over its own dimensions; x_zero, w_zero: the
// same as x and w, or no_zero_point. outs, ins: over (n, k, out...).
#ifndef TENON_RUNTIME_CPU_WINDOW_DIRECT_H
#define TENON_RUNTIME_CPU_WINDOW_DIRECT_H

#include "cpu/loops.h"
#include "cpu/matmul_direct.h"
#include "cpu/pooling.h"

namespace tenon {
namespace cpu {
namespace detail {

/// The element of x that tap t of window o meets along one dimension; -1 when there is none.
template <bool Transposed>
TENON_FN index_t tap_position(index_t o, index_t t, index_t stride, index_t dilation, index_t pad,
                              index_t extent) {
  index_t p;
  if constexpr (Transposed) {
    p = o + pad - t * dilation;
    if (p < 0 || p % stride != 0)
      return -1;
    p /= stride;
  } else {
    p = o * stride + t * dilation - pad;
  }
  return p < extent ? p : -1;
}

/// Fills point[2 ...]; false when the tap lies outside in some dimension.
template <bool Transposed, class Cfg, int Rank>
TENON_FN bool tap_point(const Cfg &cfg, const index_t (&extents)[Rank], const index_t *at,
                        const index_t *tap, index_t *point) {
  (void)cfg;
  for (int d = 0; d < Rank; ++d) {
    point[2 + d] = tap_position<Transposed>(at[2 + d], tap[d], Cfg::strides[d], Cfg::dilations[d],
                                            Cfg::pads[d], extents[d]);
    if (point[2 + d] < 0)
      return false;
  }
  return true;
}

} // namespace detail

template <class Cfg, class X, class XZero, class W, class WZero, class Outs, class Ins, class Body>
void conv_direct(const Cfg &cfg, const X &x, const XZero &x_zero, const W &w, const WZero &w_zero,
                 const Outs &outs, const Ins &ins, const Body &body, pool &workers) {
  using namespace detail;
  using A = typename Cfg::accumulator;
  constexpr int spatial = decltype(cfg.out)::rank, rank = spatial + 2;
  const index_t filters = cfg.filters, channels = cfg.channels;
  odometer<rank> points;
  points.extents[0] = cfg.batch;
  points.extents[1] = index_t(cfg.groups) * filters;
  fill_extents<0>(cfg.out, points.extents + 2);
  index_t extents[spatial];
  fill_extents<0>(cfg.in, extents);
  workers.parallel_for(points.size(), 1 + 4096 / (channels + 1), [&](index_t begin, index_t end) {
    const subnormals_as_zero guard;
    odometer<rank> it = points;
    it.seek(begin);
    for (index_t u = begin; u < end; ++u, it.step()) {
      const index_t group = it.at[1] / filters;
      index_t point[rank] = {it.at[0]}, weight[rank] = {};
      A sum = A(0);
      for_each_point<2, 0, spatial>(cfg.kernel, weight, [&] {
        if (!tap_point<Cfg::transposed>(cfg, extents, it.at, weight + 2, point))
          return;
        for (index_t c = 0; c < channels; ++c) {
          point[1] = group * channels + c;
          weight[0] = Cfg::transposed ? group * channels + c : it.at[1];
          weight[1] = Cfg::transposed ? it.at[1] - group * filters : c;
          sum = multiply_add(load_centred<A, rank - 1>(x, x_zero, point),
                             load_centred<A, rank - 1>(w, w_zero, weight), sum);
        }
      });
      apply_body<scalar_lanes, rank - 1>(body, outs, ins, it.at, fixed<1>{}, sum);
    }
  });
}

template <class Cfg, class X, class Outs, class Ins, class Body>
void pooling_direct(const Cfg &cfg, const X &x, const Outs &outs, const Ins &ins, const Body &body,
                    pool &workers) {
  using namespace detail;
  using A = typename Cfg::accumulator;
  using Kind = typename Cfg::kind;
  constexpr int spatial = decltype(cfg.out)::rank, rank = spatial + 2;
  odometer<rank> points;
  points.extents[0] = cfg.batch;
  points.extents[1] = cfg.channels;
  fill_extents<0>(cfg.out, points.extents + 2);
  index_t extents[spatial], taps[spatial];
  fill_extents<0>(cfg.in, extents);
  fill_extents<0>(cfg.kernel, taps);
  workers.parallel_for(points.size(), 1024, [&](index_t begin, index_t end) {
    odometer<rank> it = points;
    it.seek(begin);
    for (index_t u = begin; u < end; ++u, it.step()) {
      index_t point[rank] = {it.at[0], it.at[1]}, tap[spatial] = {}, inside = 0, padded = 1;
      A acc = Kind::template start<A>();
      for_each_point<0, 0, spatial>(cfg.kernel, tap, [&] {
        if (!tap_point<false>(cfg, extents, it.at, tap, point))
          return;
        ++inside;
        acc = Kind::template fold<scalar_lanes>(
            acc, A(load_at<scalar_lanes, rank - 1>(x, point, fixed<1>{})));
      });
      for (int d = 0; d < spatial; ++d)
        padded *= taps_inside(it.at[2 + d] * Cfg::strides[d] - Cfg::pads[d], Cfg::dilations[d],
                              taps[d], extents[d], Cfg::pads_end[d])
                      .padded_end;
      apply_body<scalar_lanes, rank - 1>(body, outs, ins, it.at, fixed<1>{},
                                         Kind::template finish<scalar_lanes>(acc, inside, padded));
    }
  });
}

} // namespace cpu
} // namespace tenon

#endif
