// Defines resize: resamples two dimensions, each output element a weighted sum of a few inputs.
//
//   y[n, c, oh, ow] =
//       body(sum over i, j of wh[oh, i] * ww[ow, j] * x[n, c, ih(oh, i), iw(ow, j)], ins...)
//
// Which elements and weights is the business of the two axes:
//   resize_table<Taps>     indices and weights in constant tables, [out][Taps]: any mode, any
//                          position rule; the compiler computes them where extents are constant
//   resize_nearest_axis, resize_linear_axis   position = i * scale + offset, rounded (floor after
//                          adding `bias`) or split into two weights; for run-time extents
//   resize_same            the dimension is copied
// Lanes run along c when x is contiguous there (NHWC), else along ow one element at a time. With
//   resize_blocks<Taps, Near>  the columns' table, by blocks of as many outputs as there are lanes
// the rows that an output row reads are first weighed into one line on the stack, whole vectors of
// columns at a time; then the outputs of a block pick their columns from that line: where these lie
// within two vectors (Near), by one permutation for each tap.
// Elements other than f32 and f64 are weighed in f32; with one tap everywhere no arithmetic is
// done, so that every element type works.
//
// Config (derive from resize_defaults): batch, channels, out_h, out_w (`fixed` or `dyn`); lanes;
// with resize_blocks in_w, `fixed`. x: view over (n, c, h, w); outs, ins: views over (n, c, oh,
// ow).
#ifndef TENON_RUNTIME_CPU_RESIZE_H
#define TENON_RUNTIME_CPU_RESIZE_H

#include "common/mul_add.h"
#include "cpu/odometer.h"
#include "cpu/reduce.h"

namespace tenon {
namespace cpu {

struct resize_defaults {
  using lanes = native_lanes;
};

template <int Taps, class Weight = float> struct resize_table {
  static constexpr int taps = Taps;
  const int32_t *indices;
  const Weight *weights; // unused for one tap
  TENON_FN index_t index(index_t out, int tap) const { return indices[out * Taps + tap]; }
  TENON_FN Weight weight(index_t out, int tap) const { return weights[out * Taps + tap]; }
};
/// Of block b: `first[b]` is a column that none of its outputs reads before, and lane l's tap j
/// reads `places[(b * Taps + j) * width + l]` columns after it. Lanes beyond the last output have
/// zeros.
template <int Taps, bool Near, class Weight = float> struct resize_blocks {
  static constexpr int taps = Taps;
  static constexpr bool near = Near;
  const int32_t *first, *places;
  const Weight *weights;
};
struct resize_same {
  static constexpr int taps = 1;
  TENON_FN index_t index(index_t out, int) const { return out; }
  TENON_FN float weight(index_t, int) const { return 1; }
};

namespace detail {
/// floor, kept within [0, extent).
TENON_FN index_t clamped_floor(float position, index_t extent) {
  if (!(position > 0))
    return 0;
  const index_t i = index_t(position);
  return i < extent ? i : extent - 1;
}
} // namespace detail

struct resize_nearest_axis {
  static constexpr int taps = 1;
  float scale, offset, bias;
  index_t extent;
  TENON_FN index_t index(index_t out, int) const {
    return detail::clamped_floor(float(out) * scale + offset + bias, extent);
  }
  TENON_FN float weight(index_t, int) const { return 1; }
};
struct resize_linear_axis {
  static constexpr int taps = 2;
  float scale, offset;
  index_t extent;
  TENON_FN index_t index(index_t out, int tap) const {
    const index_t below = detail::clamped_floor(float(out) * scale + offset, extent);
    return below + tap < extent ? below + tap : extent - 1;
  }
  TENON_FN float weight(index_t out, int tap) const {
    float position = float(out) * scale + offset;
    position = position > 0 ? position : 0;
    const float fraction = position - float(detail::clamped_floor(position, extent));
    return tap == 0 ? 1 - fraction : fraction;
  }
};

namespace detail {

template <class L, class X, class AxisH, class AxisW, class Outs, class Ins, class Body,
          class Count>
TENON_FN void resize_row(const X &x, const AxisH &rows, const AxisW &columns, index_t out_w,
                         index_t *at, Count count, const Outs &outs, const Ins &ins,
                         const Body &body) {
  constexpr bool copies = AxisH::taps == 1 && AxisW::taps == 1;
  index_t row[AxisH::taps];
  float row_weight[AxisH::taps];
  for (int i = 0; i < AxisH::taps; ++i) {
    row[i] = rows.index(at[2], i);
    row_weight[i] = AxisH::taps == 1 ? 1 : rows.weight(at[2], i);
  }
  for (at[3] = 0; at[3] < out_w; ++at[3]) {
    index_t point[4] = {at[0], at[1], row[0], columns.index(at[3], 0)};
    if constexpr (copies) {
      apply_body<L, 1>(body, outs, ins, at, count, load_at<L, 1>(x, point, count));
    } else {
      using E = compute_t<typename X::element>;
      using A = typename choose_type<is_same<E, double>, double, float>::type;
      using V = typename L::template of<A>;
      V sum = V{};
      for (int j = 0; j < AxisW::taps; ++j) {
        point[3] = columns.index(at[3], j);
        const A column_weight = A(AxisW::taps == 1 ? 1 : columns.weight(at[3], j));
        for (int i = 0; i < AxisH::taps; ++i) {
          point[2] = row[i];
          sum = mul_add(convert<V>(load_at<L, 1>(x, point, count)),
                        broadcast<L, A>(A(row_weight[i]) * column_weight), sum);
        }
      }
      apply_body<L, 1>(body, outs, ins, at, count, sum);
    }
  }
}

/// base[places[l]] in lane l; `Near` says that all places lie within the first two vectors.
template <class L, bool Near, class A>
TENON_FN typename L::template of<A> pick(const A *base, const int32_t *places) {
#if TENON_SIMD_WIDTH > 1 && defined(__GNUC__) && !defined(__clang__)
  using V = typename L::template of<A>;
  if constexpr (Near && is_vector<V> && sizeof(A) == sizeof(int32_t))
    return __builtin_shuffle(V(load<L>(base)), V(load<L>(base + L::width)),
                             typename L::template of<int32_t>(load<L>(places)));
  else
#endif
  {
    A values[L::width];
    for (int l = 0; l < L::width; ++l)
      values[l] = base[places[l]];
    return load<L, A>(values);
  }
}

/// One output row, lanes along it.
template <class Cfg, class X, class AxisH, class Blocks, class Outs, class Ins, class Body>
TENON_FN void resize_line(const Cfg &cfg, const X &x, const AxisH &rows, const Blocks &columns,
                          index_t *at, const Outs &outs, const Ins &ins, const Body &body) {
  using L = typename Cfg::lanes;
  using E = compute_t<typename X::element>;
  using A = typename choose_type<is_same<E, double>, double, float>::type;
  using V = typename L::template of<A>;
  constexpr index_t width = L::width, in_w = decltype(cfg.in_w)::value,
                    size = ceil_div(in_w, width) * width + 2 * width;
  alignas(64) A line[size];
  const auto fold = [&](index_t iw, auto count) TENON_LAMBDA {
    V sum = V{};
    for (int i = 0; i < AxisH::taps; ++i) {
      const index_t point[4] = {at[0], at[1], rows.index(at[2], i), iw};
      const V value = convert<V>(load_at<L, 3>(x, point, count));
      sum =
          AxisH::taps == 1 ? value : mul_add(value, broadcast<L, A>(A(rows.weight(at[2], i))), sum);
    }
    store<L, A>(line + iw, sum);
  };
  index_t iw = 0;
  for (; iw + width <= in_w; iw += width)
    fold(iw, fixed<width>{});
  if constexpr (in_w % width != 0)
    fold(iw, fixed<in_w % width>{});
  for (iw = ceil_div(in_w, width) * width; iw < size; iw += width)
    store<L, A>(line + iw, V{}); // a permutation reads two whole vectors

  const index_t out_w = cfg.out_w;
  for (index_t b = 0; b * width < out_w; ++b) {
    const A *base = line + columns.first[b];
    V sum = V{};
    if constexpr (Blocks::taps == 1)
      sum = pick<L, Blocks::near>(base, columns.places + b * width);
    else
      for (int j = 0; j < Blocks::taps; ++j) {
        const index_t entry = (b * Blocks::taps + j) * width;
        sum = mul_add(pick<L, Blocks::near>(base, columns.places + entry),
                      convert<V>(load<L>(columns.weights + entry)), sum);
      }
    at[3] = b * width;
    if (out_w - at[3] >= width)
      apply_body<L, 3>(body, outs, ins, at, fixed<width>{}, sum);
    else
      apply_body<L, 3>(body, outs, ins, at, out_w - at[3], sum);
  }
}

} // namespace detail

/// With lanes along the rows.
template <class Cfg, class X, class AxisH, int Taps, bool Near, class Weight, class Outs, class Ins,
          class Body>
void resize(const Cfg &cfg, const X &x, const AxisH &rows,
            const resize_blocks<Taps, Near, Weight> &columns, const Outs &outs, const Ins &ins,
            const Body &body, pool &workers) {
  using namespace detail;
  odometer<3> space;
  space.extents[0] = cfg.batch;
  space.extents[1] = cfg.channels;
  space.extents[2] = cfg.out_h;
  const index_t unit = AxisH::taps * index_t(cfg.in_w) + Taps * index_t(cfg.out_w);
  workers.parallel_for(space.size(), 1 + 65536 / (unit + 1), [&](index_t begin, index_t end) {
    odometer<3> it = space;
    it.seek(begin);
    for (index_t u = begin; u < end; ++u, it.step()) {
      index_t at[4] = {it.at[0], it.at[1], it.at[2], 0};
      resize_line(cfg, x, rows, columns, at, outs, ins, body);
    }
  });
}

template <class Cfg, class X, class AxisH, class AxisW, class Outs, class Ins, class Body>
void resize(const Cfg &cfg, const X &x, const AxisH &rows, const AxisW &columns, const Outs &outs,
            const Ins &ins, const Body &body, pool &workers) {
  using namespace detail;
  using L =
      typename choose_type<lane_fit<1, X>::value >= 0, typename Cfg::lanes, scalar_lanes>::type;
  odometer<3> space;
  space.extents[0] = cfg.batch;
  space.extents[1] = cfg.out_h;
  space.extents[2] = ceil_div(cfg.channels, L::width);
  workers.parallel_for(
      space.size(), 1 + 8192 / (index_t(cfg.out_w) + 1), [&](index_t begin, index_t end) {
        odometer<3> it = space;
        it.seek(begin);
        for (index_t u = begin; u < end; ++u, it.step()) {
          const index_t channel = it.at[2] * L::width, left = index_t(cfg.channels) - channel;
          index_t at[4] = {it.at[0], channel, it.at[1], 0};
          if (left >= L::width)
            resize_row<L>(x, rows, columns, cfg.out_w, at, fixed<L::width>{}, outs, ins, body);
          else
            resize_row<L>(x, rows, columns, cfg.out_w, at, left, outs, ins, body);
        }
      });
}

} // namespace cpu
} // namespace tenon

#endif
