// Defines `resize`: resamples two dimensions, each output element a weighted sum of a few inputs.
//
//   y[n, c, oh, ow] =
//       body(sum over i, j of wh[oh, i] * ww[ow, j] * x[n, c, ih(oh, i), iw(ow, j)], ins...)
//
// Which elements and weights is the business of the two axes:
//   resize_table<Taps>    indices and weights in constant tables, [out][Taps]: any mode, any
//                         position rule; the compiler computes them where extents are constant
//   resize_nearest_axis, resize_linear_axis   position = i * scale + offset, rounded (floor after
//                         adding `bias`) or split into two weights; for run-time extents
//   resize_repeated<P>    outputs that repeat: each reads what the one `period` before it does,
//                         `advance` elements further, kept within the extent
//   resize_same           the dimension is copied
// Algorithm: a thread computes a run of `vector` outputs along channels or columns. Elements other
// than f64 are weighed in f32; with one tap everywhere nothing is computed, so that every type
// works. A run along columns that repeat, of whole periods, loads each element that it reads once
// for a row, and its weights are constants.
//
// Config (derive from window_defaults): batch, channels, out_h, out_w, whole_runs (of results and
// operands of the body). Schedule: along, vector.
// x over (n, c, h, w); outs and ins over (n, c, oh, ow).
#ifndef TENON_RUNTIME_CUDA_RESIZE_KERNEL_CUH
#define TENON_RUNTIME_CUDA_RESIZE_KERNEL_CUH

#include "cuda/base/window.cuh"

namespace tenon {
namespace cuda {

template <int Taps, class Weight = float> struct resize_table {
  static constexpr int taps = Taps;
  const int32_t *indices;
  const Weight *weights; // unused for one tap
  TENON_FN int index(int out, int tap) const { return indices[out * Taps + tap]; }
  TENON_FN Weight weight(int out, int tap) const { return weights[out * Taps + tap]; }
};
/// Pattern: taps, period, advance, extent, and static constexpr functions of a phase and a tap:
/// `delta`, the element less advance times the period's number, and `weight`.
template <class Pattern> struct resize_repeated : Pattern {
  TENON_FN static constexpr int kept(int i) {
    return i < 0 ? 0 : i < Pattern::extent ? i : Pattern::extent - 1;
  }
  TENON_FN int index(int out, int tap) const {
    const int turn = int(unsigned(out) / unsigned(Pattern::period));
    return kept(turn * Pattern::advance + Pattern::delta(out - turn * Pattern::period, tap));
  }
  TENON_FN auto weight(int out, int tap) const {
    return Pattern::weight_of(int(unsigned(out) % unsigned(Pattern::period)), tap);
  }
  /// The first and the last element that `count` outputs from a period's first on read, less where
  /// that period begins.
  TENON_FN static constexpr int lowest(int count) {
    int least = Pattern::delta(0, 0);
    for (int i = 0; i < count * Pattern::taps; ++i)
      least = min_of(least, place(i / Pattern::taps, i % Pattern::taps));
    return least;
  }
  TENON_FN static constexpr int highest(int count) {
    int most = Pattern::delta(0, 0);
    for (int i = 0; i < count * Pattern::taps; ++i)
      most = max_of(most, place(i / Pattern::taps, i % Pattern::taps));
    return most;
  }
  TENON_FN static constexpr int place(int output, int tap) {
    return output / Pattern::period * Pattern::advance +
           Pattern::delta(output % Pattern::period, tap);
  }
};
struct resize_same {
  static constexpr int taps = 1;
  TENON_FN int index(int out, int) const { return out; }
  TENON_FN float weight(int, int) const { return 1; }
};
namespace detail {
/// floor, kept within [0, extent).
TENON_FN int clamped_floor(float position, int extent) {
  if (!(position > 0))
    return 0;
  return position < float(extent) ? int(position) : extent - 1;
}
} // namespace detail
struct resize_nearest_axis {
  static constexpr int taps = 1;
  float scale, offset, bias;
  int extent;
  TENON_FN int index(int out, int) const {
    return detail::clamped_floor(float(out) * scale + offset + bias, extent);
  }
  TENON_FN float weight(int, int) const { return 1; }
};
struct resize_linear_axis {
  static constexpr int taps = 2;
  float scale, offset;
  int extent;
  TENON_FN int index(int out, int tap) const {
    return min_of(detail::clamped_floor(float(out) * scale + offset, extent) + tap, extent - 1);
  }
  TENON_FN float weight(int out, int tap) const {
    const float position = max_of(float(out) * scale + offset, 0.0f);
    const float fraction = position - float(detail::clamped_floor(position, extent));
    return tap == 0 ? 1 - fraction : fraction;
  }
};

namespace detail {
/// What elements of T are weighed in.
template <class T> struct weighed_in { using type = float; };
template <> struct weighed_in<double> { using type = double; };

/// Whether runs of V outputs are whole periods of an axis.
template <int V, class Axis> constexpr bool has_whole_periods = false;
template <int V, class Pattern>
constexpr bool has_whole_periods<V, resize_repeated<Pattern>> = V % Pattern::period == 0;
} // namespace detail

template <class Config, class X, class AxisH, class AxisW, class Outs, class Ins, class Body>
struct resize_kernel {
  Config cfg;
  X x;
  AxisH rows;
  AxisW columns;
  Outs outs;
  Ins ins;
  Body body;

  using value = compute_t<typename X::element>;
  static constexpr int vector = Config::vector, along = Config::along;
  static constexpr int threads = 128, blocks_per_sm = 1;
  static constexpr bool weighs = AxisH::taps > 1 || AxisW::taps > 1;
  static constexpr bool by_rows =
      along == 3 && vector > 1 && detail::has_whole_periods<vector, AxisW>;
  using walk = window_walk<along, vector, 1>;

  grid blocks() const { return {ceil_div(points().threads(), index_t(threads)), 1, 1}; }

  TENON_DEVICE void run(unsigned char *) const {
    int at[4], count;
    if (!points().seek(block_x() * threads + thread(), at, count))
      return;
    value result[vector] = {};
    if constexpr (by_rows) {
      resample_rows(result, at);
    } else if constexpr (!weighs) {
      load_tap(result, at, count, 0, 0);
    } else {
      using sum_type = typename detail::weighed_in<value>::type;
      sum_type sum[vector] = {};
      TENON_UNROLL
      for (int i = 0; i < AxisH::taps; ++i) {
        TENON_UNROLL
        for (int j = 0; j < AxisW::taps; ++j) {
          value tap[vector];
          load_tap(tap, at, count, i, j);
          TENON_UNROLL
          for (int v = 0; v < vector; ++v) {
            const int column = along == 3 ? min_of(at[3] + v, int(index_t(cfg.out_w)) - 1) : at[3];
            const float weight = rows.weight(at[2], i) * columns.weight(column, j);
            sum[v] = mul_add(sum_type(weight), sum_type(tap[v]), sum[v]);
          }
        }
      }
      TENON_UNROLL
      for (int v = 0; v < vector; ++v)
        result[v] = value(sum[v]);
    }
    operand_runs<vector, Ins> operands;
    operands.template load<along, operand_part::all, Config::whole_runs>(ins, at, count);
    apply_to_runs<along, Config::whole_runs>(body, outs, operands, at, count, result);
  }

private:
  TENON_FN walk points() const {
    return {int(index_t(cfg.channels)), int(index_t(cfg.out_h)), int(index_t(cfg.out_w)),
            index_t(cfg.batch)};
  }
  /// The columns repeat: each element of a row that the run reads is loaded once.
  TENON_DEVICE void resample_rows(value (&result)[vector], const int (&at)[4]) const {
    constexpr int first = AxisW::lowest(vector), span = AxisW::highest(vector) - first + 1;
    using sum_type =
        typename detail::choose_type<weighs, typename detail::weighed_in<value>::type, value>::type;
    value image[AxisH::taps][span];
    TENON_UNROLL
    for (int i = 0; i < AxisH::taps; ++i)
      load_row<first, span>(image[i], at, rows.index(at[2], i));
    sum_type sum[vector] = {};
    TENON_UNROLL
    for (int i = 0; i < AxisH::taps; ++i) {
      TENON_UNROLL
      for (int v = 0; v < vector; ++v) {
        TENON_UNROLL
        for (int j = 0; j < AxisW::taps; ++j) {
          const sum_type tap = sum_type(image[i][AxisW::place(v, j) - first]);
          if constexpr (weighs) {
            const float weight = rows.weight(at[2], i) * AxisW::weight_of(v % AxisW::period, j);
            sum[v] = mul_add(sum_type(weight), tap, sum[v]);
          } else {
            sum[v] = tap;
          }
        }
      }
    }
    TENON_UNROLL
    for (int v = 0; v < vector; ++v)
      result[v] = value(sum[v]);
  }
  /// Elements First to First + Span - 1, seen from where the run's first period begins, of a row;
  /// beyond the ends, the last ones. Those from where the period begins on are a word where they
  /// lie so.
  template <int First, int Span>
  TENON_DEVICE void load_row(value (&image)[Span], const int (&at)[4], int row) const {
    constexpr int word = vector / AxisW::period * AxisW::advance;
    constexpr bool has_word =
        word > 1 && First <= 0 && First + Span >= word && detail::is_power_of_two(word);
    const int begin = at[3] / AxisW::period * AxisW::advance;
    int point[4] = {at[0], at[1], row, begin};
    const bool by_word = has_word && begin + word <= AxisW::extent;
    if constexpr (has_word) {
      if (by_word) {
        value middle[word];
        load_operand<3>(middle, x, point, word);
        TENON_UNROLL
        for (int s = 0; s < word; ++s)
          image[s - First] = middle[s];
      }
    }
    TENON_UNROLL
    for (int s = 0; s < Span; ++s) {
      const bool in_word = has_word && s + First >= 0 && s + First < word;
      if (!in_word || !by_word) {
        point[3] = AxisW::kept(begin + First + s);
        image[s] = load_one(x, point);
      }
    }
  }
  TENON_DEVICE void load_tap(value (&tap)[vector], const int (&at)[4], int count, int i,
                             int j) const {
    int point[4] = {at[0], at[1], rows.index(at[2], i), 0};
    if constexpr (along == 1) {
      point[3] = columns.index(at[3], j);
      load_operand<1>(tap, x, point, count);
    } else {
      TENON_UNROLL
      for (int v = 0; v < vector; ++v) {
        point[3] = v < count ? columns.index(at[3] + v, j) : 0;
        tap[v] = load_one(x, point);
      }
    }
  }
};

template <class Config, class X, class AxisH, class AxisW, class Outs, class Ins, class Body>
resize_kernel<Config, X, AxisH, AxisW, Outs, Ins, Body>
resize(Config cfg, X x, AxisH rows, AxisW columns, Outs outs, Ins ins, Body body) {
  return {cfg, x, rows, columns, outs, ins, body};
}

} // namespace cuda
} // namespace tenon

#endif
