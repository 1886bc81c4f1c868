// Defines `conv_any` and `matmul_any`: contractions of any rank, element type and operand
// (computed, integer with zero points, transposed), one thread per output element. What the tiled
// kernels do not take comes here.
//
// Config of conv_any: space (dims: n, k, spatial...), in (dims: spatial...), kernel, strides,
//   dilations, pads (extents over the spatial dimensions; pads at the beginning), channels, filters
//   (both of one group), transposed (bool), accumulator (type). x, outs, ins over their own
//   dimensions; w over (k, channel, tap...) or, transposed, (c, filter, tap...).
// Config of matmul_any: space (dims: batch..., m, n), depth, accumulator (type).
//   a over (batch..., m, k), b over (batch..., k, n).
// Zero points: no_zero_point, or a view over one dimension: a row of A, a filter or column of B.
// Integer sums are exact: padding contributes nothing, as the zero point itself would.
#ifndef TENON_RUNTIME_CUDA_CONTRACT_ANY_KERNEL_CUH
#define TENON_RUNTIME_CUDA_CONTRACT_ANY_KERNEL_CUH

#include "common/mul_add.h"
#include "cuda/base/computed.cuh"

namespace tenon {
namespace cuda {

struct no_zero_point {};

namespace detail {
template <class Value> TENON_DEVICE Value zero_point(no_zero_point, int) { return Value(0); }
template <class Value, class View> TENON_DEVICE Value zero_point(const View &v, int i) {
  const int at[1] = {i};
  return Value(load_one(v, at));
}
} // namespace detail

template <class Config, class X, class XZero, class W, class WZero, class Outs, class Ins,
          class Body>
struct conv_any_kernel {
  Config cfg;
  X x;
  XZero x_zero;
  W w;
  WZero w_zero;
  Outs outs;
  Ins ins;
  Body body;

  using value = typename Config::accumulator;
  static constexpr int rank = decltype(Config::space)::rank, spatial = rank - 2;
  static constexpr int threads = 128, blocks_per_sm = 1;

  TENON_FN static constexpr bool runs_on(target) { return true; }
  int shared_bytes() const { return 0; }
  grid blocks() const { return {ceil_div(volume(cfg.space), index_t(threads)), 1, 1}; }

  TENON_DEVICE void prefetch(unsigned char *) const {}
  TENON_DEVICE void run(unsigned char *) const {
    int at[rank];
    unravel<rank>(cfg.space, block_x() * threads + thread(), at);
    if (at[0] >= int(index_t(cfg.space.template get<0>())))
      return;
    const int group = at[1] / int(index_t(cfg.filters));
    window taps;
    taps.group = group;
    taps.x[0] = at[0];
    taps.x_zero = detail::zero_point<value>(x_zero, 0);
    taps.w_zero = detail::zero_point<value>(w_zero, at[1]);
    value sum[1] = {};
    walk<0>(at, taps, sum[0]);
    apply_body<1>(body, outs, ins, at, 1, sum);
  }

private:
  struct window {
    int x[rank], w[rank]; // the points multiplied
    int group;
    value x_zero, w_zero;
  };

  template <int D> TENON_DEVICE void walk(const int (&at)[rank], window &taps, value &sum) const {
    if constexpr (D == spatial) {
      const int channels = int(index_t(cfg.channels));
      for (int c = 0; c < channels; ++c) {
        taps.x[1] = taps.group * channels + c;
        taps.w[0] = Config::transposed ? taps.x[1] : at[1];
        taps.w[1] = Config::transposed ? at[1] - taps.group * int(index_t(cfg.filters)) : c;
        sum = mul_add(value(value(load_one(x, taps.x)) - taps.x_zero),
                      value(value(load_one(w, taps.w)) - taps.w_zero), sum);
      }
    } else {
      const int stride = int(index_t(cfg.strides.template get<D>()));
      const int dilation = int(index_t(cfg.dilations.template get<D>()));
      const int pad = int(index_t(cfg.pads.template get<D>()));
      const int extent = int(index_t(cfg.in.template get<D>()));
      for (int tap = 0; tap < int(index_t(cfg.kernel.template get<D>())); ++tap) {
        int i;
        if constexpr (Config::transposed) {
          i = at[2 + D] + pad - tap * dilation;
          if (i < 0 || i % stride != 0)
            continue;
          i /= stride;
        } else {
          i = at[2 + D] * stride - pad + tap * dilation;
        }
        if (unsigned(i) >= unsigned(extent))
          continue;
        taps.x[2 + D] = i;
        taps.w[2 + D] = tap;
        walk<D + 1>(at, taps, sum);
      }
    }
  }
};

template <class Config, class X, class XZero, class W, class WZero, class Outs, class Ins,
          class Body>
conv_any_kernel<Config, X, XZero, W, WZero, Outs, Ins, Body>
conv_any(Config cfg, X x, XZero x_zero, W w, WZero w_zero, Outs outs, Ins ins, Body body) {
  return {cfg, x, x_zero, w, w_zero, outs, ins, body};
}

template <class Config, class A, class AZero, class B, class BZero, class Outs, class Ins,
          class Body>
struct matmul_any_kernel {
  Config cfg;
  A a;
  AZero a_zero;
  B b;
  BZero b_zero;
  Outs outs;
  Ins ins;
  Body body;

  using value = typename Config::accumulator;
  static constexpr int rank = decltype(Config::space)::rank;
  static constexpr int threads = 128, blocks_per_sm = 1;

  TENON_FN static constexpr bool runs_on(target) { return true; }
  int shared_bytes() const { return 0; }
  grid blocks() const { return {ceil_div(volume(cfg.space), index_t(threads)), 1, 1}; }

  TENON_DEVICE void prefetch(unsigned char *) const {}
  TENON_DEVICE void run(unsigned char *) const {
    int at[rank], left[rank], right[rank];
    unravel<rank>(cfg.space, block_x() * threads + thread(), at);
    if (at[0] >= int(index_t(cfg.space.template get<0>())))
      return;
    TENON_UNROLL
    for (int d = 0; d < rank; ++d)
      left[d] = right[d] = at[d];
    const value za = detail::zero_point<value>(a_zero, at[rank - 2]);
    const value zb = detail::zero_point<value>(b_zero, at[rank - 1]);
    value sum[1] = {};
    for (int k = 0; k < int(index_t(cfg.depth)); ++k) {
      left[rank - 1] = right[rank - 2] = k;
      sum[0] = mul_add(value(value(load_one(a, left)) - za), value(value(load_one(b, right)) - zb),
                       sum[0]);
    }
    apply_body<rank - 1>(body, outs, ins, at, 1, sum);
  }
};

template <class Config, class A, class AZero, class B, class BZero, class Outs, class Ins,
          class Body>
matmul_any_kernel<Config, A, AZero, B, BZero, Outs, Ins, Body>
matmul_any(Config cfg, A a, AZero a_zero, B b, BZero b_zero, Outs outs, Ins ins, Body body) {
  return {cfg, a, a_zero, b, b_zero, outs, ins, body};
}

} // namespace cuda
} // namespace tenon

#endif
