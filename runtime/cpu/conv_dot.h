// Defines conv_dot: convolution with few filters, where lanes along the filters would stay empty.
//
// The taps and channels of one kernel row lie side by side in NHWC (and the taps alone when there
// is one channel), so each output is a dot product of kernel_h contiguous runs: lanes run along the
// taps, `mr` neighbouring columns times `nr` filters are summed at once, and only then added across
// lanes. Borders as in conv.h: columns outside come from a patch with zeros, rows outside are left
// out.
//
// Config: the members of conv.h, with
//   filters                 a multiple of nr
//   mr, nr                  schedule: columns and filters of a tile, mr * nr <= registers - 6,
//                           such as 8 x 1
//   groups, dilation_w      1
//   channels                fixed
//   pack_input              true, unless x is contiguous along c and w as one run (c stride
//                           fixed<1> and w stride fixed<channels>, or one channel and w stride
//                           fixed<1>)
// w: [filters][kernel_h][kernel_w][channels].
//
// It is worth it (conv_dot_is_better() below) when
//   filters * (kernel_h * ceil(kernel_w * channels / width) + 6)
//     < kernel_h * kernel_w * channels * ceil(filters / width) / 2
#ifndef TENON_RUNTIME_CPU_CONV_DOT_H
#define TENON_RUNTIME_CPU_CONV_DOT_H

#include "cpu/conv.h"
#include "cpu/sum_lanes.h"

namespace tenon {
namespace cpu {

constexpr bool conv_dot_is_better(index_t kernel_h, index_t kernel_w, index_t channels,
                                  index_t filters, int width) {
  const index_t run = kernel_w * channels;
  return width > 1 && 2 * filters * (kernel_h * ceil_div(run, width) + 6) <
                          kernel_h * run * ceil_div(filters, width);
}

namespace detail {

/// One tile: columns [at[3], at[3] + mr) and nr filters from at[1], of which `columns` are stored.
template <class Cfg, class T, class W, class Outs, class Ins, class Body>
TENON_TILE void conv_dot_tile(const Cfg &cfg, const T *data, index_t row, const conv_window &window,
                              const W *w, index_t *at, index_t columns, const Outs &outs,
                              const Ins &ins, const Body &body) {
  using L = typename Cfg::lanes;
  using A = typename Cfg::accumulator;
  using V = typename L::template of<A>;
  constexpr int mr = Cfg::mr, nr = Cfg::nr;
  constexpr index_t channels = decltype(cfg.channels)::value,
                    pixel = decltype(cfg.stride_w)::value * channels;
  constexpr index_t run = decltype(cfg.kernel_w)::value * channels,
                    whole = run / L::width * L::width;
  V acc[mr][nr];
  unroll<mr>([&](auto r)
                 TENON_LAMBDA { unroll<nr>([&](auto f) TENON_LAMBDA { acc[r][f] = V{}; }); });
  for (index_t ky = window.ky_begin; ky < window.ky_end; ++ky) {
    const T *x = data + ky * row;
    const W *weights = w + ky * run;
    const auto step = [&](index_t i, auto count) TENON_LAMBDA {
      V taps[nr];
      unroll<nr>([&](auto f) TENON_LAMBDA {
        taps[f] =
            convert<V>(load_strided<L>(weights + int(f) * decltype(cfg.kernel_h)::value * run + i,
                                       fixed<1>{}, index_t(count)));
      });
      unroll<mr>([&](auto r) TENON_LAMBDA {
        V values = convert<V>(load_strided<L>(x + int(r) * pixel + i, fixed<1>{}, index_t(count)));
        unroll<nr>([&](auto f) TENON_LAMBDA { acc[r][f] = mul_add(values, taps[f], acc[r][f]); });
      });
    };
    for (index_t i = 0; i < whole; i += L::width)
      step(i, fixed<L::width>{});
    if constexpr (run != whole)
      step(whole, fixed<run - whole>{});
  }
  // Results leave in vectors along the columns.
  unroll<nr>([&](auto f) TENON_LAMBDA {
    A sums[ceil_div(mr, L::width) * L::width] = {};
    unroll<mr>([&](auto r) TENON_LAMBDA { sums[r] = sum_lanes<A>(acc[r][f]); });
    const index_t stored = columns < mr ? columns : mr;
    for (index_t r = 0; r < stored; r += L::width) {
      const index_t point[4] = {at[0], at[1] + int(f), at[2], at[3] + r};
      apply_body<L, 3>(body, outs, ins, point, stored - r < L::width ? stored - r : L::width,
                       load<L>(sums + r));
    }
  });
}

} // namespace detail

template <class Cfg, class X, class W, class Outs, class Ins, class Body,
          class Prologue = no_prologue, class PrologueIns = arguments<>>
void conv_dot(const Cfg &cfg, const X &x, const W *w, const Outs &outs, const Ins &ins,
              const Body &body, pool &workers, const Prologue &prologue = {},
              const PrologueIns &prologue_ins = {}) {
  using namespace detail;
  using A = typename Cfg::accumulator;
  using T = bare<typename X::element>;
  constexpr int mr = Cfg::mr, nr = Cfg::nr;
  constexpr index_t channels = decltype(cfg.channels)::value;
  constexpr index_t kernel_h = decltype(cfg.kernel_h)::value,
                    kernel_w = decltype(cfg.kernel_w)::value;
  constexpr index_t stride_w = decltype(cfg.stride_w)::value;
  static_assert(is_same<bare<decltype(cfg.dilation_w)>, fixed<1>> &&
                    is_same<bare<decltype(cfg.groups)>, fixed<1>>,
                "conv_dot takes neither groups nor a dilation along w");
  constexpr bool direct = !Cfg::pack_input && is_same<Prologue, no_prologue>;
  static_assert(!direct || (is_same<bare<decltype(x.strides.template get<3>())>, fixed<channels>> &&
                            (channels == 1 ||
                             is_same<bare<decltype(x.strides.template get<1>())>, fixed<1>>)),
                "conv_dot reads runs of w and c; set pack_input");
  constexpr index_t filter_size = kernel_h * kernel_w * channels;
  constexpr index_t span = (mr - 1) * stride_w + kernel_w, patch_size = kernel_h * span * channels;

  odometer<5> space;
  space.extents[0] = cfg.batch;
  space.extents[1] = cfg.out_h;
  space.extents[2] = ceil_div(cfg.out_w, mr);
  space.extents[3] = index_t(cfg.filters) / nr;
  space.extents[4] = 1;
  workers.parallel_for(
      space.size(), 1 + (index_t(1) << 18) / (mr * nr * filter_size),
      [&](index_t begin, index_t end) {
        const subnormals_as_zero guard;
        alignas(64) A patch[patch_size];
        odometer<5> it = space;
        it.seek(begin);
        for (index_t u = begin; u < end; ++u, it.step()) {
          index_t at[4] = {it.at[0], it.at[3] * nr, it.at[1], it.at[2] * mr};
          const index_t ih = at[2] * index_t(cfg.stride_h) - index_t(cfg.pad_top);
          const index_t iw = at[3] * stride_w - index_t(cfg.pad_left);
          const index_t origin[4] = {at[0], 0, ih, iw}, columns = index_t(cfg.out_w) - at[3];
          const conv_window window = conv_taps_of<4>(cfg, origin);
          const W *weights = w + at[1] * filter_size;
          if constexpr (direct) {
            if (iw >= 0 && iw + span <= index_t(cfg.in_w) && columns >= mr) {
              const index_t row = index_t(x.strides.template get<2>()) * index_t(cfg.dilation_h);
              conv_dot_tile<Cfg, T>(cfg, x.data + x.offset(origin), row, window, weights, at,
                                    columns, outs, ins, body);
              continue;
            }
          }
          conv_pack(indices_to<PrologueIns::count>{}, cfg, x, origin, window, span, patch, prologue,
                    prologue_ins);
          conv_dot_tile<Cfg, A>(cfg, patch, span * channels, window, weights, at, columns, outs,
                                ins, body);
        }
      });
}

} // namespace cpu
} // namespace tenon

#endif
