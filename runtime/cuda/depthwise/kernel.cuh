// Defines `depthwise`: 2-d convolution in which each input channel has its own `multiplier`
// filters.
//
// Algorithm: a thread computes `vector` channels at `columns` neighbouring output columns. With
// fixed kernel width, stride and dilation it loads the columns of a kernel row once and uses them
// for every output they touch. A row's loads, and those of the next rows as far as registers go,
// are on their way before the first is used: with few threads per layer, latency is what counts.
//
// Config (derive from window_defaults):
//   batch, in_h, in_w, out_h, out_w, channels (input), multiplier, kernel_h, kernel_w (fixed),
//   stride_h, stride_w (fixed), dilation_h, dilation_w (fixed), pad_top, pad_left, whole_runs (see
//   fetch_run). Schedule: vector, columns.
// x over (n, c, h, w), c stride fixed<1> for vector loads; outs and ins over (n, k, oh, ow).
// Weights: [kernel_h][kernel_w][channels * multiplier]. Bytes have exact 32-bit sums of
// (x - x_zero) * w, x_zero being the zero point of x, static.
#ifndef TENON_RUNTIME_CUDA_DEPTHWISE_KERNEL_CUH
#define TENON_RUNTIME_CUDA_DEPTHWISE_KERNEL_CUH

#include "cuda/base/window.cuh"

namespace tenon {
namespace cuda {

template <class Config, class X, class W, class Outs, class Ins, class Body>
struct depthwise_kernel {
  Config cfg;
  X x;
  const W *w;
  Outs outs;
  Ins ins;
  Body body;

  static constexpr int vector = Config::vector, columns = Config::columns;
  static constexpr int threads = 128, blocks_per_sm = 1;
  static constexpr int kernel_w = int(decltype(Config::kernel_w)::value),
                       kernel_h = int(decltype(Config::kernel_h)::value);
  static constexpr int stride = int(decltype(Config::stride_w)::value);
  static constexpr int dilation = int(decltype(Config::dilation_w)::value);
  static constexpr int multiplier = int(decltype(Config::multiplier)::value);
  static constexpr int span = (columns - 1) * stride + (kernel_w - 1) * dilation + 1;
  using walk = window_walk<1, vector, columns>;
  using element = detail::bare<typename X::element>;
  using value = typename detail::choose_type<sizeof(element) == 1, int, compute_t<element>>::type;

  grid blocks() const { return {ceil_div(points().threads(), index_t(threads)), 1, 1}; }

  TENON_DEVICE void run(unsigned char *) const {
    int at[4], count;
    if (!points().seek(block_x() * threads + thread(), at, count))
      return;
    // Loaded here, scale and bias are there when the sums are.
    operand_runs<vector, Ins> operands;
    operands.template load<1, operand_part::fixed>(ins, at, count);
    value sum[columns][vector] = {};
    const int y0 = at[2] * int(index_t(cfg.stride_h)) - int(index_t(cfg.pad_top));
    const int x0 = at[3] * stride - int(index_t(cfg.pad_left));
    const auto w_view = make_view(w, extents<1>{});
    TENON_UNROLL_BY(kernel_w * kernel_h <= 64 ? kernel_h : 1)
    for (int ky = 0; ky < kernel_h; ++ky) {
      fetched_run<vector, X> image[span];
      fetched_run<vector, view<const W, extents<1>>> weights[kernel_w];
      const int y = y0 + ky * int(index_t(cfg.dilation_h));
      TENON_UNROLL
      for (int i = 0; i < span; ++i)
        if (used(i))
          fetch_column(image[i], at, y, x0 + i, count);
      TENON_UNROLL
      for (int kx = 0; kx < kernel_w; ++kx) {
        const int place[1] = {(ky * kernel_w + kx) * outputs() + at[1]};
        weights[kx].template fetch<0, Config::whole_runs>(w_view, place, count);
      }
      TENON_UNROLL
      for (int kx = 0; kx < kernel_w; ++kx) {
        TENON_UNROLL
        for (int c = 0; c < columns; ++c) {
          TENON_UNROLL
          for (int v = 0; v < vector; ++v)
            sum[c][v] = mul_add(centred(image[c * stride + kx * dilation][v]),
                                value(weights[kx][v]), sum[c][v]);
        }
      }
    }
    TENON_UNROLL
    for (int c = 0; c < columns; ++c) {
      if (at[3] < int(index_t(cfg.out_w))) {
        operands.template load<1, operand_part::moving>(ins, at, count);
        apply_to_runs<1>(body, outs, operands, at, count, sum[c]);
      }
      ++at[3];
    }
  }

private:
  TENON_DEVICE static value centred(value x) {
    if constexpr (Config::x_zero != 0)
      return x - Config::x_zero;
    else
      return x;
  }
  TENON_FN int outputs() const { return int(cfg.channels * cfg.multiplier); }
  TENON_FN walk points() const {
    return {outputs(), int(index_t(cfg.out_h)), int(index_t(cfg.out_w)), index_t(cfg.batch)};
  }
  /// Whether any output of the row reads its i-th column.
  TENON_FN static constexpr bool used(int i) {
    for (int c = 0; c < columns; ++c)
      for (int k = 0; k < kernel_w; ++k)
        if (c * stride + k * dilation == i)
          return true;
    return false;
  }
  template <class Run>
  TENON_DEVICE void fetch_column(Run &to, const int (&at)[4], int y, int column, int count) const {
    const bool inside =
        unsigned(y) < unsigned(index_t(cfg.in_h)) && unsigned(column) < unsigned(index_t(cfg.in_w));
    if constexpr (multiplier == 1) {
      const int point[4] = {at[0], at[1], y, column};
      to.template fetch<1, Config::whole_runs>(x, point, inside ? count : 0);
      if constexpr (Config::x_zero != 0)
        if (!inside) {
          TENON_UNROLL
          for (int v = 0; v < vector; ++v)
            to.set(v, compute_t<element>(Config::x_zero));
        }
    } else {
      TENON_UNROLL
      for (int v = 0; v < vector; ++v) {
        const int point[4] = {at[0], (at[1] + v) / multiplier, y, column};
        if (inside && v < count)
          to.fetch_one(v, x, point);
        else
          to.set(v, compute_t<element>(Config::x_zero));
      }
    }
  }
};

template <class Config, class X, class W, class Outs, class Ins, class Body>
depthwise_kernel<Config, X, W, Outs, Ins, Body> depthwise(Config cfg, X x, const W *w, Outs outs,
                                                          Ins ins, Body body) {
  return {cfg, x, w, outs, ins, body};
}

} // namespace cuda
} // namespace tenon

#endif
