// Defines depthwise: 2-d or 3-d convolution in which each input channel has its own `multiplier`
// filters.
//
//   y[n, c*multiplier + j, oh, ow] =
//       body(sum over ky, kx of x[n, c, ih(ky), iw(kx)] * w[ky, kx, c*multiplier + j], ins...)
//
// Lanes run along the output channels. One call of the inner function computes a whole output row
// for one vector of channels, `mr` columns at a time: the columns a tile needs are loaded once per
// kernel row and used by every output they touch, with the weights of that row in registers, at
// most eight at a time.
// Padding costs nothing inside: only tiles at the borders (and a last, partial one) test each
// column.
//
// Config (derive from depthwise_defaults; as in conv.h):
//   batch, out_h, out_w, in_h, in_w, channels (input; fixed or dyn), multiplier (fixed)
//   kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left
//   out_d, in_d, kernel_d, stride_d, dilation_d, pad_front   of volumes, as in conv.h
//   mr                 schedule: output columns of a tile. With AVX-512 8 for 3x3; less when
//                      registers are few: mr + min(kernel_w, 8) + 2 <= registers. Lowered to
//                      ceil(out_w / tiles) as in conv.h
//   lanes, accumulator types
// x: view over (n, c, [d,] h, w); c stride fixed<1> (NHWC) for vector loads.
// outs, ins: over (n, k, [od,] oh, ow).
// w: [ceil(channels*multiplier / width)][kernel_d][kernel_h][kernel_w][width], zeros in missing
// channels.
#ifndef TENON_RUNTIME_CPU_DEPTHWISE_H
#define TENON_RUNTIME_CPU_DEPTHWISE_H

#include "common/mul_add.h"
#include "cpu/conv_window.h"
#include "cpu/epilogue.h"
#include "cpu/odometer.h"
#include "cpu/pool.h"
#include "cpu/subnormals.h"
#include "cpu/unroll.h"

namespace tenon {
namespace cpu {

struct depthwise_defaults {
  static constexpr fixed<1> multiplier{};
  static constexpr fixed<1> stride_h{}, stride_w{}, dilation_h{}, dilation_w{};
  static constexpr fixed<0> pad_top{}, pad_left{};
  static constexpr fixed<1> in_d{}, out_d{}, kernel_d{}, stride_d{}, dilation_d{}; // a plane
  static constexpr fixed<0> pad_front{};
  static constexpr bool fits_pairs = false, fits_signs = false; // of depthwise_bytes.h
  static constexpr int short_words = 0;
  using lanes = native_lanes;
};

namespace detail {

#if TENON_SIMD_WIDTH > 1
/// The first lanes, each `Times` times.
template <int Times, class V, int... I> TENON_FN V repeated(indices<I...>, V v) {
#if defined(__clang__) || __GNUC__ >= 12
  return __builtin_shufflevector(v, v, I / Times...);
#else
  V to = v;
  for (int i = int(sizeof...(I)) - 1; i > 0; --i)
    to[i] = to[i / Times];
  return to;
#endif
}
#endif

/// Inputs of `L::width` output channels from k on: neighbours, or each repeated `Multiplier` times.
template <class L, index_t Multiplier, class A, class T, class Stride, class Count>
TENON_FN typename L::template of<A> depthwise_load(const T *p, Stride stride, index_t k,
                                                   Count count) {
  using V = typename L::template of<A>;
  if constexpr (Multiplier == 1) {
    return convert<V>(load_strided<L>(p, stride, index_t(count)));
#if TENON_SIMD_WIDTH > 1
  } else if constexpr (L::width % Multiplier == 0) { // k is a multiple of the width
    const index_t channels = ceil_div(index_t(count), Multiplier);
    return repeated<Multiplier>(indices_to<L::width>{},
                                convert<V>(load_strided<L>(p, stride, channels)));
#endif
  } else {
    A lanes[L::width] = {};
    for (index_t i = 0; i < index_t(count); ++i)
      lanes[i] = A(load_element(p + ((k + i) / Multiplier - k / Multiplier) * index_t(stride)));
    return load<L, A>(lanes);
  }
}

/// One output row for the lanes at channel at[1].
template <class Cfg, class X, class W, class Count, class Outs, class Ins, class Body>
TENON_TILE void depthwise_row(const Cfg &cfg, const X &x, const index_t *origin, const W *w,
                              index_t *at, Count count, const Outs &outs, const Ins &ins,
                              const Body &body) {
  using L = typename Cfg::lanes;
  using A = typename Cfg::accumulator;
  using V = typename L::template of<A>;
  constexpr int rank = X::rank, mr = Cfg::mr;
  constexpr int kernel_w = int(decltype(cfg.kernel_w)::value),
                stride = int(decltype(cfg.stride_w)::value),
                dilation = int(decltype(cfg.dilation_w)::value),
                multiplier = int(decltype(cfg.multiplier)::value);
  constexpr int span = (mr - 1) * stride + (kernel_w - 1) * dilation + 1;
  const index_t out_w = cfg.out_w, in_w = cfg.in_w, kernel_h = cfg.kernel_h;
  const index_t column = x.strides.template get<rank - 1>();
  const auto channel = x.strides.template get<1>();

  const conv_window window = conv_taps_of<rank>(cfg, origin);
  // Where the first row of taps begins, which may be outside, and the next row and plane of them.
  const index_t first = x.offset(origin),
                line = index_t(x.strides.template get<rank - 2>()) * index_t(cfg.dilation_h),
                plane =
                    rank == 5 ? index_t(x.strides.template get<2>()) * index_t(cfg.dilation_d) : 0;
  // One tile; Checked when a column may lie outside the image or the tile hangs over the row's end.
  const auto tile = [&](index_t ow, auto checked) TENON_LAMBDA {
    constexpr bool is_checked = decltype(checked)::value != 0;
    const index_t iw = ow * stride - index_t(cfg.pad_left);
    V acc[mr];
    unroll<mr>([&](auto r) TENON_LAMBDA { acc[r] = V{}; });
    for (index_t kz = window.kz_begin; kz < window.kz_end; ++kz)
      for (index_t ky = window.ky_begin; ky < window.ky_end; ++ky) {
        const auto *row = x.data + (first + kz * plane + ky * line + iw * column);
        const W *taps = w + (kz * kernel_h + ky) * (kernel_w * L::width);
        const auto meet = [&](auto some, index_t from) TENON_LAMBDA { // taps from `from` on
          constexpr int n = decltype(some)::value;
          const index_t skipped = from * dilation;
          V weights[n];
          unroll<n>([&](auto kx) TENON_LAMBDA {
            weights[kx] = convert<V>(load<L>(taps + (from + int(kx)) * L::width));
          });
          unroll<(mr - 1) * stride + (n - 1) * dilation + 1>([&](auto j) TENON_LAMBDA {
            // Column j meets output r through tap kx where r*stride + kx*dilation = j.
            const index_t at_column = skipped + int(j);
            V value = V{};
            if (!is_checked || (iw + at_column >= 0 && iw + at_column < in_w))
              value =
                  depthwise_load<L, multiplier, A>(row + at_column * column, channel, at[1], count);
            hold(value);
            unroll<n>([&](auto kx) TENON_LAMBDA {
              constexpr int distance = int(j) - int(kx) * dilation;
              if constexpr (distance >= 0 && distance % stride == 0 && distance / stride < mr)
                acc[distance / stride] = mul_add(value, weights[kx], acc[distance / stride]);
            });
          });
        };
        constexpr int most = 8, rest = kernel_w % most;
        if constexpr (kernel_w <= most) {
          meet(counter<kernel_w>{}, 0);
        } else {
          for (index_t from = 0; from + most <= kernel_w; from += most)
            meet(counter<most>{}, from);
          if constexpr (rest != 0)
            meet(counter<rest>{}, kernel_w - rest);
        }
      }
    unroll<mr>([&](auto r) TENON_LAMBDA {
      if (!is_checked || ow + int(r) < out_w) {
        at[rank - 1] = ow + int(r);
        apply_body<L, 1>(body, outs, ins, at, count, acc[r]);
      }
    });
  };
  for (index_t ow = 0; ow < out_w; ow += mr) {
    const index_t iw = ow * stride - index_t(cfg.pad_left);
    if (iw >= 0 && iw + span <= in_w && ow + mr <= out_w)
      tile(ow, counter<0>{});
    else
      tile(ow, counter<1>{});
  }
}

} // namespace detail

template <class Cfg, class X, class W, class Outs, class Ins, class Body>
void depthwise(const Cfg &cfg, const X &x, const W *w, const Outs &outs, const Ins &ins,
               const Body &body, pool &workers) {
  using namespace detail;
  constexpr int rank = X::rank, width = Cfg::lanes::width;
  const auto filters = product(cfg.channels, cfg.multiplier);
  const index_t blocks = ceil_div(filters, width);
  odometer<4> space;
  space.extents[0] = cfg.batch;
  space.extents[1] = cfg.out_d;
  space.extents[2] = cfg.out_h;
  space.extents[3] = blocks;
  const index_t taps = index_t(cfg.kernel_d) * index_t(cfg.kernel_h) * index_t(cfg.kernel_w),
                row_work = index_t(cfg.out_w) * taps;
  // A piece worth handing to another thread is some eight thousand multiply-adds of vectors.
  workers.parallel_for(space.size(), 1 + 8192 / (row_work + 1), [&](index_t begin, index_t end) {
    const subnormals_as_zero guard;
    odometer<4> it = space;
    it.seek(begin);
    for (index_t u = begin; u < end; ++u, it.step()) {
      const index_t filter = it.at[3] * width, left = index_t(filters) - filter;
      conv_point<rank> to(it.at[0], filter, it.at[1], it.at[2], 0);
      const conv_point<rank> corner(it.at[0], filter / index_t(cfg.multiplier),
                                    it.at[1] * index_t(cfg.stride_d) - index_t(cfg.pad_front),
                                    it.at[2] * index_t(cfg.stride_h) - index_t(cfg.pad_top), 0);
      index_t *at = to.at;
      const index_t *origin = corner.at;
      const W *panel = w + it.at[3] * taps * width;
      if (left >= width)
        depthwise_row(cfg, x, origin, panel, at, fixed<width>{}, outs, ins, body);
      else if constexpr (!decltype(filters)::is_fixed)
        depthwise_row(cfg, x, origin, panel, at, dyn(left), outs, ins, body);
      else if constexpr (decltype(filters)::value % width != 0)
        depthwise_row(cfg, x, origin, panel, at, fixed<decltype(filters)::value % width>{}, outs,
                      ins, body);
    }
  });
}

} // namespace cpu
} // namespace tenon

#endif
