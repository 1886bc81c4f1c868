// Defines `depthwise_rows`: convolution of planes and volumes in which each input channel has its
// own `multiplier` filters, where neighbours along a row are neighbours in memory (NCHW, NCDHW).
//
// Algorithm: a thread computes `vector` neighbours in each of `height` rows of one channel. Rows of
// the input come as runs that begin at multiples of `vector`, each once for all outputs that it
// touches; the filter's elements are the same for neighbouring threads. Taller windows than
// `most_unrolled` go row by row.
//
// Config (derive from window_defaults): batch, in_d, in_h, in_w, out_d, out_h, out_w, channels
// (input); fixed multiplier, kernel_d, kernel_h, kernel_w, stride_d, stride_h, stride_w,
// dilation_d, dilation_h, dilation_w; pad_front, pad_top, pad_left (fixed); whole_runs (runs of the
// input have `vector` elements or none, and are aligned), whole_results (likewise). Schedule:
// vector, height. x over (n, c, d, h, w), outs and ins over (n, k, od, oh, ow). Weights
// [channels * multiplier][kernel_d][kernel_h][kernel_w].
#ifndef TENON_RUNTIME_CUDA_DEPTHWISE_ROWS_CUH
#define TENON_RUNTIME_CUDA_DEPTHWISE_ROWS_CUH

#include "cuda/base/window.cuh"

namespace tenon {
namespace cuda {

template <class Config, class X, class W, class Outs, class Ins, class Body>
struct depthwise_rows_kernel {
  Config cfg;
  X x;
  const W *w;
  Outs outs;
  Ins ins;
  Body body;

  static constexpr int vector = Config::vector, height = Config::height;
  static constexpr int threads = 128, blocks_per_sm = 1;
  static constexpr int kernel_d = int(decltype(Config::kernel_d)::value),
                       kernel_h = int(decltype(Config::kernel_h)::value),
                       kernel_w = int(decltype(Config::kernel_w)::value);
  static constexpr int stride_h = int(decltype(Config::stride_h)::value),
                       stride_w = int(decltype(Config::stride_w)::value);
  static constexpr int dilation_h = int(decltype(Config::dilation_h)::value),
                       dilation_w = int(decltype(Config::dilation_w)::value);
  static constexpr int pad_left = int(decltype(Config::pad_left)::value);
  static constexpr int multiplier = int(decltype(Config::multiplier)::value);
  /// Columns that a thread's windows cover, from `pad_left` before the first; as runs.
  static constexpr int span = (vector - 1) * stride_w + (kernel_w - 1) * dilation_w + 1;
  static constexpr int runs_before = ceil_div(max_of(pad_left, 0), vector),
                       first = runs_before * vector - pad_left,
                       runs = ceil_div(first + span, vector);
  static constexpr int rows = (height - 1) * stride_h + (kernel_h - 1) * dilation_h + 1;
  static constexpr int most_unrolled = 16;

  grid blocks() const {
    return {ceil_div(index_t(cfg.batch) * outputs() * index_t(cfg.out_d) * groups() * row_runs(),
                     index_t(threads)),
            1, 1};
  }

  TENON_DEVICE void run(unsigned char *) const {
    int rest = block_x() * threads + thread();
    int at[5];
    at[4] = rest % row_runs() * vector;
    rest /= row_runs();
    at[3] = rest % groups() * height;
    rest /= groups();
    at[2] = rest % int(index_t(cfg.out_d));
    rest /= int(index_t(cfg.out_d));
    at[1] = rest % outputs();
    at[0] = rest / outputs();
    if (at[0] >= int(index_t(cfg.batch)))
      return;
    const int count = min_of(int(index_t(cfg.out_w)) - at[4], vector);
    float sum[height][vector] = {};
    const W *const filter = w + index_t(at[1]) * (kernel_d * kernel_h * kernel_w);
    TENON_NO_UNROLL
    for (int kd = 0; kd < kernel_d; ++kd) {
      const int z = at[2] * int(index_t(cfg.stride_d)) - int(index_t(cfg.pad_front)) +
                    kd * int(index_t(cfg.dilation_d));
      if (unsigned(z) >= unsigned(index_t(cfg.in_d)))
        continue;
      const W *const plane = filter + kd * (kernel_h * kernel_w);
      if constexpr (rows <= most_unrolled)
        add_plane(plane, at, z, sum);
      else
        add_rows(plane, at, z, sum);
    }
    TENON_UNROLL
    for (int r = 0; r < height; ++r) {
      if (at[3] < int(index_t(cfg.out_h)))
        apply(at, count, sum[r]);
      ++at[3];
    }
  }

private:
  using element = detail::bare<typename X::element>;
  TENON_FN int outputs() const { return int(cfg.channels * cfg.multiplier); }
  TENON_FN int groups() const { return int(ceil_div(index_t(cfg.out_h), index_t(height))); }
  TENON_FN int row_runs() const { return int(ceil_div(index_t(cfg.out_w), index_t(vector))); }

  TENON_DEVICE int first_row(const int (&at)[5]) const {
    return at[3] * stride_h - int(index_t(cfg.pad_top));
  }
  using row_run = fetched_run<vector, X>;
  TENON_DEVICE void fetch_row(row_run (&row)[runs], const int (&at)[5], int z, int y) const {
    const bool inside = unsigned(y) < unsigned(index_t(cfg.in_h));
    TENON_UNROLL
    for (int i = 0; i < runs; ++i) {
      const int column = at[4] * stride_w + (i - runs_before) * vector;
      const int left = int(index_t(cfg.in_w)) - column;
      const int place[5] = {at[0], at[1] / multiplier, z, y, column};
      row[i].template fetch<4, Config::whole_runs>(
          x, place, inside && column >= 0 ? max_of(0, min_of(left, vector)) : 0);
    }
  }
  /// The windows of one row: weights [kernel_w] of it.
  TENON_DEVICE void add_row(const float (&weights)[kernel_w], const row_run (&row)[runs],
                            float (&sum)[vector]) const {
    TENON_UNROLL
    for (int kx = 0; kx < kernel_w; ++kx) {
      TENON_UNROLL
      for (int v = 0; v < vector; ++v) {
        constexpr int from = first;
        const int i = from + v * stride_w + kx * dilation_w;
        sum[v] = mul_add(row[i / vector][i % vector], weights[kx], sum[v]);
      }
    }
  }
  TENON_DEVICE void load_weights(float (&weights)[kernel_w], const W *from) const {
    TENON_UNROLL
    for (int kx = 0; kx < kernel_w; ++kx)
      weights[kx] = load_element(from + kx);
  }

  /// All rows of a plane that the windows of this thread touch, each once.
  TENON_DEVICE void add_plane(const W *plane, const int (&at)[5], int z,
                              float (&sum)[height][vector]) const {
    float weights[kernel_h][kernel_w];
    TENON_UNROLL
    for (int ky = 0; ky < kernel_h; ++ky)
      load_weights(weights[ky], plane + ky * kernel_w);
    TENON_UNROLL
    for (int y = 0; y < rows; ++y) {
      if (!touches(y))
        continue;
      row_run row[runs];
      fetch_row(row, at, z, first_row(at) + y);
      TENON_UNROLL
      for (int r = 0; r < height; ++r) {
        const int offset = y - r * stride_h;
        if (offset >= 0 && offset % dilation_h == 0 && offset / dilation_h < kernel_h)
          add_row(weights[offset < 0 ? 0 : offset / dilation_h % kernel_h], row, sum[r]);
      }
    }
  }
  TENON_FN static constexpr bool touches(int y) {
    for (int r = 0; r < height; ++r)
      for (int ky = 0; ky < kernel_h; ++ky)
        if (r * stride_h + ky * dilation_h == y)
          return true;
    return false;
  }
  /// Row by row of the window.
  TENON_DEVICE void add_rows(const W *plane, const int (&at)[5], int z,
                             float (&sum)[height][vector]) const {
    TENON_NO_UNROLL
    for (int ky = 0; ky < kernel_h; ++ky) {
      float weights[kernel_w];
      load_weights(weights, plane + ky * kernel_w);
      TENON_UNROLL
      for (int r = 0; r < height; ++r) {
        row_run row[runs];
        fetch_row(row, at, z, first_row(at) + r * stride_h + ky * dilation_h);
        add_row(weights, row, sum[r]);
      }
    }
  }
  TENON_DEVICE void apply(const int (&at)[5], int count, const float (&sum)[vector]) const {
    operand_runs<vector, Ins> operands;
    operands.template load<4>(ins, at, count);
    apply_to_runs<4, Config::whole_results>(body, outs, operands, at, count, sum);
  }
};

template <class Config, class X, class W, class Outs, class Ins, class Body>
depthwise_rows_kernel<Config, X, W, Outs, Ins, Body> depthwise_rows(Config cfg, X x, const W *w,
                                                                    Outs outs, Ins ins, Body body) {
  return {cfg, x, w, outs, ins, body};
}

} // namespace cuda
} // namespace tenon

#endif
