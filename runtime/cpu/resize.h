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
// Lanes run along c when x is contiguous there (NHWC), else along ow one element at a time.
// Elements other than f32 and f64 are weighed in f32; with one tap everywhere no arithmetic is
// done, so that every element type works.
//
// Config (derive from resize_defaults): batch, channels, out_h, out_w (`fixed` or `dyn`); lanes.
// x: view over (n, c, h, w); outs, ins: views over (n, c, oh, ow).
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

} // namespace detail

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
