// Defines pooling_rows: largest element or mean of 2-d and 3-d windows (1-d with h = 1), row by row
// and then along the row, so that an output costs the sum of the window's extents instead of their
// product.
//
//   as pooling (cpu/pooling.h), over (n, c, h, w) or (n, c, d, h, w)
//
// For a row of outputs the rows of x that its windows meet are folded into one line on the stack,
// with what a window starts from where the padding is; then every output folds its kernel_w columns
// of that line. Long windows double instead: the folds of 1, 2, 4, ... columns, of which those that
// make up kernel_w are joined. Lanes run along the columns (NCHW), where the line is stored in as
// many parts as stride_w has, so that neighbouring outputs read neighbours; or along the channels
// (NHWC). Pairs of columns at a stride of two need no line.
//
// Config (derive from pooling_rows_defaults; as in pooling.h, windows and steps `fixed`):
//   out_d, in_d, kernel_d, stride_d, dilation_d, pad_front, pad_back   of volumes
//   columns   static constexpr bool: lanes run along w, else along c
//   line      static constexpr index_t: most columns of x with the padding in front, or that
//   windows
//             reach. The stack holds pooled_line::size elements up to three times.
#ifndef TENON_RUNTIME_CPU_POOLING_ROWS_H
#define TENON_RUNTIME_CPU_POOLING_ROWS_H

#include "cpu/conv_window.h"
#include "cpu/pooling.h"
#include "cpu/unroll.h"

namespace tenon {
namespace cpu {

struct pooling_rows_defaults : pooling_defaults {
  static constexpr fixed<1> in_d{}, out_d{}, kernel_d{}, stride_d{}, dilation_d{}; // a plane
  static constexpr fixed<0> pad_front{}, pad_back{};
};

namespace detail {

/// The line of a row of outputs: elements, and where columns lie.
template <class Cfg> struct pooled_line {
  using L = typename Cfg::lanes;
  static constexpr index_t width = L::width, stride = decltype(Cfg::stride_w)::value,
                           kernel = decltype(Cfg::kernel_w)::value,
                           dilation = decltype(Cfg::dilation_w)::value;
  static constexpr index_t step = Cfg::columns ? 1 : width; // from column to column
  static constexpr index_t parts = Cfg::columns ? stride : 1;
  /// Each part has every parts-th column, and room for what vectors read and store beyond.
  static constexpr index_t part =
      ceil_div(ceil_div(Cfg::line + (kernel - 1) * dilation, parts) + 2 * width, width) * width *
      step;
  static constexpr index_t size = parts * part;
  static constexpr bool doubles = kernel > 8 && parts == 1;
  /// Windows of two neighbours that do not overlap: pairs of columns are folded where they are
  /// loaded, and no line is kept.
  static constexpr bool pairs = Cfg::columns && kernel == 2 && stride == 2 && dilation == 1;

  /// Of column j, counted from the padding's first.
  static TENON_FN index_t place(index_t j) {
    return parts == 1 ? j * step : j % parts * part + j / parts;
  }
};

/// total[j] = fold of line[j], line[j + dilation], ... over the window's columns; spoils the line.
template <class Cfg, class A> TENON_FN void fold_doubling(A *line, A *total) {
  using L = typename Cfg::lanes;
  using P = pooled_line<Cfg>;
  using Kind = typename Cfg::kind;
  using V = typename L::template of<A>;
  const auto join = [&](A *to, index_t ahead) TENON_LAMBDA {
    for (index_t j = 0; j + ahead + P::width <= P::size; j += P::width)
      store<L, A>(to + j, Kind::template fold<L>(V(load<L>(to + j)), V(load<L>(line + j + ahead))));
  };
  index_t joined = 0, length = 1;
  for (index_t rest = P::kernel;; length *= 2) {
    if (rest % 2 != 0) {
      join(total, joined * P::dilation * P::step);
      joined += length;
    }
    rest /= 2;
    if (rest == 0)
      return;
    join(line, length * P::dilation * P::step);
  }
}

/// Lanes First, First + 2, ... of those of a and then of b.
template <int First, class V, int... I> TENON_FN V every_second(indices<I...>, V a, V b) {
#if defined(__clang__) || __GNUC__ >= 12
  return __builtin_shufflevector(a, b, First + 2 * I...);
#else
  constexpr int width = int(sizeof...(I));
  V to = a;
  for (int i = 0; i < width; ++i) {
    const int from = First + 2 * i;
    to[i] = from < width ? a[from] : b[from - width];
  }
  return to;
#endif
}

/// The fold of column iw, or of the columns from there on, over the rows of x that the window at
/// `origin` meets.
template <class Cfg, class A, class X, class Count>
TENON_FN auto fold_column(const Cfg &cfg, const X &x, const index_t *origin,
                          const conv_window &window, index_t iw, Count lanes) {
  using L = typename Cfg::lanes;
  using Kind = typename Cfg::kind;
  using V = typename L::template of<A>;
  constexpr int rank = X::rank, axis = Cfg::columns ? rank - 1 : 1;
  V acc = Kind::template start<V>();
  for (index_t kz = window.kz_begin; kz < window.kz_end; ++kz)
    for (index_t ky = window.ky_begin; ky < window.ky_end; ++ky) {
      const conv_point<rank> at = conv_tap_row<rank>(cfg, origin, kz, ky, iw);
      acc = Kind::template fold<L>(acc, convert<V>(load_at<L, axis>(x, at.at, lanes)));
    }
  return acc;
}

/// The fold of the windows of outputs ow to ow + width - 1 of a row, of pairs.
template <class Cfg, class A, class X>
TENON_FN auto fold_pairs(const Cfg &cfg, const X &x, const index_t *origin,
                         const conv_window &window, index_t ow) {
  using L = typename Cfg::lanes;
  using Kind = typename Cfg::kind;
  using V = typename L::template of<A>;
  constexpr index_t width = L::width;
  const index_t in_w = cfg.in_w, iw = 2 * ow - index_t(cfg.pad_left);
  const auto columns = [&](index_t from) TENON_LAMBDA {
    if (from >= 0 && from + width <= in_w)
      return fold_column<Cfg, A>(cfg, x, origin, window, from, fixed<width>{});
    // Columns of the padding have what a window starts from.
    const index_t skipped = from < 0 ? -from : 0, first = from + skipped,
                  end = from + width < in_w ? from + width : in_w;
    A values[width];
    store<L, A>(values, Kind::template start<V>());
    if (first < end)
      store_partial<L, A>(values + skipped,
                          fold_column<Cfg, A>(cfg, x, origin, window, first, dyn(end - first)),
                          end - first);
    return V(load<L>(values));
  };
  const V a = columns(iw), b = columns(iw + width);
  if constexpr (is_vector<V>)
    return V(Kind::template fold<L>(every_second<0>(indices_to<L::width>{}, a, b),
                                    every_second<1>(indices_to<L::width>{}, a, b)));
  else
    return V(Kind::template fold<L>(a, b));
}

/// Folds the rows of x that the window at `origin` meets into the line.
template <class Cfg, class X, class A, class Count>
TENON_FN void fold_rows(const Cfg &cfg, const X &x, const index_t *origin,
                        const conv_window &window, Count count, A *line) {
  using L = typename Cfg::lanes;
  using P = pooled_line<Cfg>;
  using V = typename L::template of<A>;
  const index_t in_w = cfg.in_w;
  const auto folded = [&](index_t iw, auto lanes) TENON_LAMBDA {
    return fold_column<Cfg, A>(cfg, x, origin, window, iw, lanes);
  };
  if constexpr (!Cfg::columns) {
    for (index_t iw = 0; iw < in_w; ++iw)
      store<L, A>(line + P::place(index_t(cfg.pad_left) + iw), folded(iw, count));
  } else {
    const auto keep = [&](index_t iw, const V &acc, index_t lanes) TENON_LAMBDA {
      const index_t first = index_t(cfg.pad_left) + iw;
      if constexpr (P::parts == 1) {
        store_strided<L, A>(line + first, fixed<1>{}, acc, lanes);
      } else {
        A values[P::width];
        store<L, A>(values, acc);
        for (index_t l = 0; l < lanes; ++l)
          line[P::place(first + l)] = values[l];
      }
    };
    index_t iw = 0;
    if constexpr (P::parts == 2 && is_vector<V>)
      for (; iw + 2 * P::width <= in_w; iw += 2 * P::width) {
        const index_t first = index_t(cfg.pad_left) + iw;
        const V a = folded(iw, fixed<P::width>{}), b = folded(iw + P::width, fixed<P::width>{});
        store<L, A>(line + P::place(first), every_second<0>(indices_to<L::width>{}, a, b));
        store<L, A>(line + P::place(first + 1), every_second<1>(indices_to<L::width>{}, a, b));
      }
    for (; iw + P::width <= in_w; iw += P::width)
      keep(iw, folded(iw, fixed<P::width>{}), P::width);
    if (iw < in_w)
      keep(iw, folded(iw, dyn(in_w - iw)), in_w - iw);
  }
}

} // namespace detail

template <class Cfg, class X, class Outs, class Ins, class Body>
void pooling_rows(const Cfg &cfg, const X &x, const Outs &outs, const Ins &ins, const Body &body,
                  pool &workers) {
  using namespace detail;
  using L = typename Cfg::lanes;
  using A = typename Cfg::accumulator;
  using Kind = typename Cfg::kind;
  using V = typename L::template of<A>;
  using P = pooled_line<Cfg>;
  constexpr int rank = X::rank, axis = Cfg::columns ? rank - 1 : 1;
  constexpr index_t width = P::width;
  constexpr bool is_max = is_same<Kind, pooling_max>, padded = is_same<Kind, pooling_mean_padded>;
  const index_t out_w = cfg.out_w, channels = cfg.channels;
  odometer<4> space;
  space.extents[0] = cfg.batch;
  space.extents[1] = Cfg::columns ? channels : ceil_div(channels, width);
  space.extents[2] = cfg.out_d;
  space.extents[3] = cfg.out_h;

  const auto run = [&](index_t begin, index_t end) {
    alignas(64) A line[P::pairs ? 1 : P::size], total[P::doubles ? P::size : 1],
        counts[is_max ? 1 : P::part];
    if constexpr (!is_max) // how many columns the mean of an output counts
      for (index_t ow = 0; ow < P::part; ++ow) {
        const index_t iw = ow * P::stride - index_t(cfg.pad_left);
        const tap_range taps = taps_inside(iw, P::dilation, P::kernel, cfg.in_w, cfg.pad_right);
        counts[ow] = A(ow >= out_w ? 1 : padded ? taps.padded_end : taps.end - taps.begin);
      }
    odometer<4> it = space;
    it.seek(begin);
    for (index_t u = begin; u < end; ++u, it.step()) {
      const index_t channel = Cfg::columns ? it.at[1] : it.at[1] * width;
      const index_t ih = it.at[3] * index_t(cfg.stride_h) - index_t(cfg.pad_top),
                    id = it.at[2] * index_t(cfg.stride_d) - index_t(cfg.pad_front);
      const conv_point<rank> corner(it.at[0], channel, id, ih, 0);
      const conv_window window = conv_taps_of<rank>(cfg, corner.at);
      const index_t left = channels - channel;
      if constexpr (!P::pairs) {
        for (index_t j = 0; j < P::size; j += width) {
          store<L, A>(line + j, Kind::template start<V>());
          if constexpr (P::doubles)
            store<L, A>(total + j, Kind::template start<V>());
        }
        if (Cfg::columns || left >= width)
          fold_rows(cfg, x, corner.at, window, fixed<width>{}, line);
        else
          fold_rows(cfg, x, corner.at, window, dyn(left), line);
      }
      if constexpr (P::doubles)
        fold_doubling<Cfg>(line, total);

      const tap_range rows =
                          taps_inside(ih, cfg.dilation_h, cfg.kernel_h, cfg.in_h, cfg.pad_bottom),
                      planes =
                          taps_inside(id, cfg.dilation_d, cfg.kernel_d, cfg.in_d, cfg.pad_back);
      const index_t others = padded ? rows.padded_end * planes.padded_end
                                    : (rows.end - rows.begin) * (planes.end - planes.begin);
      conv_point<rank> at(it.at[0], channel, it.at[2], it.at[3], 0);
      for (index_t ow = 0; ow < out_w; ow += Cfg::columns ? width : 1) {
        V acc = Kind::template start<V>();
        if constexpr (P::pairs) {
          acc = fold_pairs<Cfg, A>(cfg, x, corner.at, window, ow);
        } else if constexpr (P::doubles) {
          acc = load<L>(total + ow * P::stride * P::step);
        } else {
          for (index_t kx = 0; kx < P::kernel; ++kx) {
            const index_t q = kx * P::dilation;
            acc = Kind::template fold<L>(
                acc, V(load<L>(line + P::place(q) + ow * (Cfg::columns ? 1 : P::stride * width))));
          }
        }
        if constexpr (!is_max) {
          V count = V{} + A(1);
          if constexpr (Cfg::columns)
            count = load<L>(counts + ow) * A(others);
          else
            count = V{} + counts[ow] * A(others);
          acc = acc / max<L>(count, V(V{} + A(1))); // the mean of nothing is 0
        }
        at.at[rank - 1] = ow;
        const index_t lanes = Cfg::columns ? out_w - ow : left;
        if (lanes >= width) {
          apply_body<L, axis>(body, outs, ins, at.at, fixed<width>{}, acc);
        } else {
          if constexpr (!is_float<A>) { // the body must not overflow in lanes that nobody stores
            A values[width];
            store<L, A>(values, acc);
            acc = load_partial<L, A>(values, lanes);
          }
          apply_body<L, axis>(body, outs, ins, at.at, lanes, acc);
        }
      }
    }
  };
  const index_t unit =
      (index_t(cfg.kernel_d) * index_t(cfg.kernel_h) * index_t(cfg.in_w) + P::kernel * out_w) *
      (Cfg::columns ? 1 : width);
  workers.parallel_for(space.size(), 1 + 65536 / (unit + 1), run);
}

} // namespace cpu
} // namespace tenon

#endif
