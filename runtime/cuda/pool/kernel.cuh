// Defines `pooling`: largest element or mean of 2-d windows.
//
// Algorithm: a thread folds `vector` neighbouring windows (along channels or columns), element by
// element; padding is skipped, never read. NaN wins a maximum. An empty window gives the lowest
// value, or 0. Windows that slide by a column share what all of a run cover, and add on either side
// what is theirs: nothing is subtracted again, so that it serves maxima, and no sum loses digits.
//
// Config (derive from window_defaults):
//   batch, channels, in_h, in_w, out_h, out_w, kernel_h, kernel_w, stride_h, stride_w, dilation_h,
//   dilation_w, pad_top, pad_left, pad_bottom, pad_right (the last two count for
//   pooling_mean_padded only), kind (type: pooling_max, pooling_mean or pooling_mean_padded),
//   accumulator (type), slides (windows slide: strides and dilations of columns of 1, kernel_w of
//   at least `vector`, along 3). Schedule: along (1 for NHWC, 3 for NCHW), vector.
// x over (n, c, h, w); outs and ins over (n, c, oh, ow).
#ifndef TENON_RUNTIME_CUDA_POOL_KERNEL_CUH
#define TENON_RUNTIME_CUDA_POOL_KERNEL_CUH

#include "common/scalar_arith.h"
#include "cuda/base/window.cuh"
#include "cuda/ptx/max_bytes.cuh"

namespace tenon {
namespace cuda {

struct pooling_max {
  template <class A> TENON_FN static A start() {
    if constexpr (tenon::detail::is_float<A>)
      return -A(INFINITY);
    else
      return tenon::detail::is_signed<A> ? A(A(1) << (8 * int(sizeof(A)) - 1)) : A(0);
  }
  template <class A> TENON_FN static A fold(A sum, A x) { return max<scalar_lanes>(sum, x); }
  template <class A> TENON_FN static A finish(A sum, int, int) { return sum; }
};
struct pooling_mean {
  template <class A> TENON_FN static A start() { return A(0); }
  template <class A> TENON_FN static A fold(A sum, A x) { return sum + x; }
  template <class A> TENON_FN static A finish(A sum, int inside, int) {
    return inside > 0 ? sum / A(inside) : A(0);
  }
};
/// Divides by the taps inside the padded image.
struct pooling_mean_padded : pooling_mean {
  template <class A> TENON_FN static A finish(A sum, int, int padded) {
    return pooling_mean::finish(sum, padded, padded);
  }
};

template <class Config, class X, class Outs, class Ins, class Body> struct pooling_kernel {
  Config cfg;
  X x;
  Outs outs;
  Ins ins;
  Body body;

  using kind = typename Config::kind;
  using value = typename Config::accumulator;
  static constexpr int vector = Config::vector, along = Config::along;
  static constexpr int threads = 128, blocks_per_sm = 1;
  using walk = window_walk<along, vector, 1>;

  grid blocks() const { return {ceil_div(points().threads(), index_t(threads)), 1, 1}; }

  TENON_DEVICE void run(unsigned char *) const {
    int at[4], count;
    if (!points().seek(block_x() * threads + thread(), at, count))
      return;
    value sum[vector];
    if constexpr (Config::slides)
      slide_windows(sum, at);
    else if (loads_words(count)) {
      if constexpr (folds_bytes)
        fold_bytes(sum, at);
      else
        fold_windows<may_load_words>(sum, at, count);
    } else
      fold_windows<false>(sum, at, count);
    apply_body<along>(body, outs, ins, at, count, sum);
  }

private:
  TENON_FN walk points() const {
    return {int(index_t(cfg.channels)), int(index_t(cfg.out_h)), int(index_t(cfg.out_w)),
            index_t(cfg.batch)};
  }
  using element = typename X::element;
  static constexpr bool may_load_words = along == 1 && detail::lies_in_words<1, vector, X>;
  /// Maxima of bytes, four at a time where there are instructions for it.
  TENON_FN static constexpr bool takes_bytes() {
    if constexpr (sizeof(element) == 1 && vector % 4 == 0)
      return may_load_words && detail::is_same<kind, pooling_max> &&
             (detail::is_same<value, int8_t> ||
              detail::is_same<value, uint8_t>)&&ptx::byte_maxima<detail::bare<element>>::pays;
    else
      return false;
  }
  static constexpr bool folds_bytes = takes_bytes();
  /// Whether a run's taps are whole words.
  TENON_DEVICE bool loads_words(int count) const {
    if constexpr (may_load_words)
      return count == vector && detail::is_aligned<detail::word_bytes<vector, element>()>(x.data);
    else
      return false;
  }

  /// Elements of the window from `first` on, of `size` that are wanted, below `end`.
  TENON_FN static int covered(int first, int size, int end) {
    return max_of(min_of(first + size, end) - max_of(first, 0), 0);
  }
  TENON_DEVICE void slide_windows(value (&sum)[vector], const int (&at)[4]) const {
    const int kernel_w = int(index_t(cfg.kernel_w)), in_h = int(index_t(cfg.in_h)),
              in_w = int(index_t(cfg.in_w)), pad_left = int(index_t(cfg.pad_left));
    const int y0 = at[2] * int(index_t(cfg.stride_h)) - int(index_t(cfg.pad_top)),
              x0 = at[3] - pad_left;
    int rows_inside = 0, rows_padded = 0;
    TENON_UNROLL
    for (int v = 0; v < vector; ++v)
      sum[v] = kind::template start<value>();
    for (int ky = 0; ky < int(index_t(cfg.kernel_h)); ++ky) {
      const int y = y0 + ky * int(index_t(cfg.dilation_h));
      rows_padded += y < in_h + int(index_t(cfg.pad_bottom));
      if (unsigned(y) >= unsigned(in_h))
        continue;
      ++rows_inside;
      value left[vector - 1], right[vector - 1];
      TENON_UNROLL
      for (int i = 0; i < vector - 1; ++i) {
        left[i] = element_or_start(at, y, x0 + i);
        right[i] = element_or_start(at, y, x0 + kernel_w + i);
      }
      value middle = kind::template start<value>();
      const int end = min_of(x0 + kernel_w, in_w);
      TENON_UNROLL_BY(8)
      for (int column = max_of(x0 + vector - 1, 0); column < end; ++column) {
        const int point[4] = {at[0], at[1], y, column};
        middle = kind::fold(middle, value(load_one(x, point)));
      }
      TENON_UNROLL
      for (int i = vector - 2; i > 0; --i)
        left[i - 1] = kind::fold(left[i - 1], left[i]);
      TENON_UNROLL
      for (int v = 0; v < vector; ++v) {
        if (v > 1)
          right[v - 1] = kind::fold(right[v - 1], right[v - 2]);
        value row = middle;
        if (v < vector - 1)
          row = kind::fold(row, left[v]);
        if (v > 0)
          row = kind::fold(row, right[v - 1]);
        sum[v] = kind::fold(sum[v], row);
      }
    }
    TENON_UNROLL
    for (int v = 0; v < vector; ++v)
      sum[v] = kind::finish(
          sum[v], rows_inside * covered(x0 + v, kernel_w, in_w),
          rows_padded * max_of(min_of(kernel_w, in_w + int(index_t(cfg.pad_right)) - x0 - v), 0));
  }
  TENON_DEVICE value element_or_start(const int (&at)[4], int y, int column) const {
    const bool is_inside = unsigned(column) < unsigned(index_t(cfg.in_w));
    const int point[4] = {at[0], at[1], y, is_inside ? column : 0};
    const value loaded = value(load_one(x, point));
    return is_inside ? loaded : kind::template start<value>();
  }
  template <bool Words>
  TENON_DEVICE void fold_windows(value (&sum)[vector], const int (&at)[4], int count) const {
    int inside[vector] = {}, padded[vector] = {};
    TENON_UNROLL
    for (int v = 0; v < vector; ++v)
      sum[v] = kind::template start<value>();
    const int stride_w = int(index_t(cfg.stride_w));
    const int y0 = at[2] * int(index_t(cfg.stride_h)) - int(index_t(cfg.pad_top));
    const int x0 = at[3] * stride_w - int(index_t(cfg.pad_left));
    // An image without pixels has none to load in place of those outside.
    const bool has_pixels = index_t(cfg.in_h) > 0 && index_t(cfg.in_w) > 0;
    const int rows = has_pixels ? int(index_t(cfg.kernel_h)) : 0;
    for (int ky = 0; ky < rows; ++ky) {
      const int y = y0 + ky * int(index_t(cfg.dilation_h));
      const bool y_inside = unsigned(y) < unsigned(index_t(cfg.in_h));
      const bool y_padded = y < int(index_t(cfg.in_h) + index_t(cfg.pad_bottom));
      for (int kx = 0; kx < int(index_t(cfg.kernel_w)); ++kx) {
        const int column = x0 + kx * int(index_t(cfg.dilation_w));
        value tap[vector];
        bool taken[vector];
        load_taps<Words>(tap, taken, at, y, column, y_inside, count);
        TENON_UNROLL
        for (int v = 0; v < vector; ++v) {
          const int mine = along == 3 ? column + v * stride_w : column;
          sum[v] = taken[v] ? kind::fold(sum[v], tap[v]) : sum[v];
          inside[v] += taken[v];
          padded[v] += y_padded && mine < int(index_t(cfg.in_w) + index_t(cfg.pad_right));
        }
      }
    }
    TENON_UNROLL
    for (int v = 0; v < vector; ++v)
      sum[v] = kind::finish(sum[v], inside[v], padded[v]);
  }
  TENON_DEVICE void fold_bytes(value (&sum)[vector], const int (&at)[4]) const {
    ptx::byte_maxima<value> largest[vector / 4];
    const int y0 = at[2] * int(index_t(cfg.stride_h)) - int(index_t(cfg.pad_top));
    const int x0 = at[3] * int(index_t(cfg.stride_w)) - int(index_t(cfg.pad_left));
    const int in_h = int(index_t(cfg.in_h)), in_w = int(index_t(cfg.in_w));
    const int rows = in_h > 0 && in_w > 0 ? int(index_t(cfg.kernel_h)) : 0;
    for (int ky = 0; ky < rows; ++ky) {
      const int y = y0 + ky * int(index_t(cfg.dilation_h));
      for (int kx = 0; kx < int(index_t(cfg.kernel_w)); ++kx) {
        const int column = x0 + kx * int(index_t(cfg.dilation_w));
        const bool is_inside = unsigned(y) < unsigned(in_h) && unsigned(column) < unsigned(in_w);
        const int point[4] = {at[0], at[1], is_inside ? y : 0, is_inside ? column : 0};
        unsigned words[vector / 4];
        detail::load_words(words,
                           reinterpret_cast<const unsigned *>(x.data + offset(x.strides, point)));
        TENON_UNROLL
        for (int i = 0; i < vector / 4; ++i) {
          ptx::byte_maxima<value> next = largest[i];
          next.take(words[i]);
          largest[i] = is_inside ? next : largest[i];
        }
      }
    }
    unsigned words[vector / 4];
    TENON_UNROLL
    for (int i = 0; i < vector / 4; ++i)
      words[i] = largest[i].word();
    memcpy(static_cast<void *>(sum), words, sizeof(sum));
  }
  /// One tap of every window of the run, and whether it lies inside x. In place of one that does
  /// not another is loaded: without branches the loads of all taps are on their way together.
  template <bool Words>
  TENON_DEVICE void load_taps(value (&tap)[vector], bool (&taken)[vector], const int (&at)[4],
                              int y, int column, bool y_inside, int count) const {
    if constexpr (along == 1) {
      const bool is_inside = y_inside && unsigned(column) < unsigned(index_t(cfg.in_w));
      const int point[4] = {at[0], at[1], is_inside ? y : 0, is_inside ? column : 0};
      if constexpr (Words) {
        detail::bare<element> run[vector];
        detail::load_words(run, x.data + offset(x.strides, point));
        TENON_UNROLL
        for (int v = 0; v < vector; ++v)
          tap[v] = value(load_element(&run[v]));
      } else {
        compute_t<element> run[vector];
        load_operand<1>(run, x, point, count);
        TENON_UNROLL
        for (int v = 0; v < vector; ++v)
          tap[v] = value(run[v]);
      }
      TENON_UNROLL
      for (int v = 0; v < vector; ++v)
        taken[v] = is_inside;
    } else {
      TENON_UNROLL
      for (int v = 0; v < vector; ++v) {
        const int mine = column + v * int(index_t(cfg.stride_w));
        taken[v] = y_inside && v < count && unsigned(mine) < unsigned(index_t(cfg.in_w));
        const int point[4] = {at[0], at[1], taken[v] ? y : 0, taken[v] ? mine : 0};
        tap[v] = value(load_one(x, point));
      }
    }
  }
};

template <class Config, class X, class Outs, class Ins, class Body>
pooling_kernel<Config, X, Outs, Ins, Body> pooling(Config cfg, X x, Outs outs, Ins ins, Body body) {
  return {cfg, x, outs, ins, body};
}

} // namespace cuda
} // namespace tenon

#endif
