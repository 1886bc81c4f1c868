// Defines conv_groups: a convolution (cpu/conv.h) in groups of few filters, which stand side by
// side in the lanes of a vector.
//
// A block is a vector of filters that follow each other, of as many groups as it spans, so each
// lane wants the channels of its own group. A patch on the stack therefore holds channel c of a
// pixel as a whole vector, each lane with the element that it multiplies; what lies left or right
// of the image is zero there. So for every tap and channel a tile multiplies one vector of weights
// with mr vectors of the patch, and nothing is shuffled in that loop. A unit of work is a column of
// tiles: while it walks down the image the patch keeps those rows that the next outputs read again,
// so that each element is spread over its lanes once for all rows of taps.
//
// Config: as for cpu/conv.h, with `filters` and `channels` fixed; mr is the schedule, nr the lanes
// of a
//   vector. The patch takes kernel_d * kernel_h * ((mr - 1) * stride_w + (kernel_w - 1) *
//   dilation_w + 1)
//   * channels * nr elements of stack.
// x: view over (n, c, h, w) or (n, c, d, h, w), any strides. outs, ins: over (n, k, [od,] oh, ow).
// w: [ceil(groups*filters/nr)][kernel_d][kernel_h][kernel_w][channels][nr], zeros in missing
// filters.
#ifndef TENON_RUNTIME_CPU_CONV_GROUPS_H
#define TENON_RUNTIME_CPU_CONV_GROUPS_H

#include "cpu/conv.h"

namespace tenon {
namespace cpu {
namespace detail {

/// What a patch of conv_groups looks like; sizes count elements.
template <class Cfg> struct groups_patch {
  static constexpr index_t channels = decltype(Cfg::channels)::value,
                           kernel_d = decltype(Cfg::kernel_d)::value,
                           kernel_h = decltype(Cfg::kernel_h)::value,
                           kernel_w = decltype(Cfg::kernel_w)::value,
                           stride_w = decltype(Cfg::stride_w)::value,
                           dilation_w = decltype(Cfg::dilation_w)::value;
  static constexpr int width = Cfg::lanes::width;
  static constexpr index_t span = (Cfg::mr - 1) * stride_w + (kernel_w - 1) * dilation_w + 1;
  static constexpr index_t pixel = channels * width, row = span * pixel,
                           size = kernel_d * kernel_h * row;
};

/// As many lanes as a run has.
template <int Run> struct run_lanes { using type = scalar_lanes; };
#if TENON_SIMD_WIDTH > 1
template <> struct run_lanes<2> { using type = simd<2>; };
template <> struct run_lanes<4> { using type = simd<4>; };
template <> struct run_lanes<8> { using type = simd<8>; };
template <> struct run_lanes<16> { using type = simd<16>; };
#endif

/// Where the lanes of a block find their channels: neighbouring lanes in runs of one group.
template <class Cfg> struct groups_block {
  static constexpr int width = Cfg::lanes::width;
  static constexpr index_t filters = decltype(Cfg::filters)::value,
                           channels = decltype(Cfg::channels)::value;
  static constexpr int common_divisor(int a, int b) {
    return b == 0 ? a : common_divisor(b, a % b);
  }
  static constexpr int run = common_divisor(width, int(filters % width)), runs = width / run;
  index_t channel;    // the first of the first lane's group
  index_t lanes;      // that are filters
  index_t from[runs]; // channels between `channel` and the first one of a run's group

  TENON_FN groups_block(index_t filter, index_t all) {
    channel = filter / filters * channels;
    lanes = all - filter < width ? all - filter : width;
    for (index_t r = 0; r < runs; ++r) // lanes that are no filters read what the first one reads
      from[r] = (filter % filters + (r * run < lanes ? r * run : 0)) / filters * channels;
  }
};

/// `count` pixels, `column` elements apart, with each channel as a vector that has the element of
/// every lane's group.
template <class Cfg, class T, class Stride, class A>
TENON_FN void spread_pixels(const groups_block<Cfg> &block, const T *x, index_t column,
                            Stride stride, index_t count, A *to) {
  using B = groups_block<Cfg>;
  using R = typename run_lanes<B::run>::type;
  for (index_t i = 0; i < count; ++i, x += column, to += B::channels * B::width)
    unroll<B::runs>([&](auto r) TENON_LAMBDA {
      const T *from = x + block.from[r] * index_t(stride);
      for (index_t c = 0; c < B::channels; ++c)
        store<R, A>(to + c * B::width + int(r) * B::run,
                    broadcast<R, A>(A(load_element(from + c * index_t(stride)))));
    });
}

/// One register tile: mr pixels from `at` and a vector of filters, over the rows of taps at
/// lines[kz*kernel_h + ky]; stores `rows` pixels, `count` filters.
template <int Rank, class Cfg, class A, class W, class Count, class Outs, class Ins, class Body>
TENON_TILE void groups_tile(const Cfg &, const A *const *lines, const conv_window &window,
                            const W *panel, const index_t *at, index_t rows, Count count,
                            const Outs &outs, const Ins &ins, const Body &body) {
  using L = typename Cfg::lanes;
  using V = typename L::template of<A>;
  using P = groups_patch<Cfg>;
  constexpr int mr = Cfg::mr;
  V acc[mr];
  unroll<mr>([&](auto r) TENON_LAMBDA { acc[r] = V{}; });
  for (index_t kz = window.kz_begin; kz < window.kz_end; ++kz)
    for (index_t ky = window.ky_begin; ky < window.ky_end; ++ky) {
      const A *tap = lines[kz * P::kernel_h + ky];
      const W *w = panel + (kz * P::kernel_h + ky) * P::kernel_w * P::pixel;
      for (index_t kx = 0; kx < P::kernel_w; ++kx, tap += P::dilation_w * P::pixel)
        for (index_t c = 0; c < P::channels; ++c, w += P::width) {
          const V weights = convert<V>(load<L>(w));
          unroll<mr>([&](auto r) TENON_LAMBDA {
            acc[r] = mul_add(load<L>(tap + (int(r) * P::stride_w * P::channels + c) * P::width),
                             weights, acc[r]);
          });
        }
    }
  index_t point[Rank];
  for (int d = 0; d < Rank; ++d)
    point[d] = at[d];
  unroll<mr>([&](auto r) TENON_LAMBDA {
    if (int(r) < rows) {
      point[Rank - 1] = at[Rank - 1] + int(r);
      apply_body<L, 1>(body, outs, ins, point, count, acc[r]);
    }
  });
}

} // namespace detail

template <class Cfg, class X, class W, class Outs, class Ins, class Body>
void conv_groups(const Cfg &cfg, const X &x, const W *w, const Outs &outs, const Ins &ins,
                 const Body &body, pool &workers) {
  using namespace detail;
  using A = typename Cfg::accumulator;
  using P = groups_patch<Cfg>;
  using B = groups_block<Cfg>;
  constexpr int rank = X::rank, mr = Cfg::mr, width = P::width;
  constexpr index_t kernel_d = P::kernel_d, kernel_h = P::kernel_h;
  // Neighbouring outputs share rows where their windows overlap and have no holes.
  constexpr bool keeps_rows =
      decltype(cfg.dilation_h)::value == 1 && decltype(cfg.stride_h)::value < kernel_h;
  constexpr index_t segment = 16; // rows of outputs to a unit
  const index_t all = index_t(cfg.groups) * index_t(cfg.filters);
  odometer<5> space;
  space.extents[0] = ceil_div(all, width);
  space.extents[1] = cfg.batch;
  space.extents[2] = cfg.out_d;
  space.extents[3] = ceil_div(cfg.out_w, mr);
  space.extents[4] = ceil_div(cfg.out_h, segment);

  const auto run = [&](index_t begin, index_t end) {
    const subnormals_as_zero guard;
    alignas(64) A patch[P::size];
    const A *lines[kernel_d * kernel_h];
    odometer<5> it = space;
    it.seek(begin);
    for (index_t u = begin; u < end; ++u, it.step()) {
      const B block(it.at[0] * width, all);
      const index_t od = it.at[2], ow = it.at[3] * mr,
                    id = od * index_t(cfg.stride_d) - index_t(cfg.pad_front),
                    iw = ow * P::stride_w - index_t(cfg.pad_left);
      const index_t first = it.at[4] * segment, stop = index_t(cfg.out_h) - first < segment
                                                           ? index_t(cfg.out_h)
                                                           : first + segment;
      const W *panel = w + it.at[0] * (kernel_d * kernel_h * P::kernel_w * P::pixel);
      // Columns of the patch that lie inside the image.
      const index_t begin_in = iw < 0 ? (-iw < P::span ? -iw : P::span) : 0,
                    last_in = index_t(cfg.in_w) - iw < P::span ? index_t(cfg.in_w) - iw : P::span,
                    end_in = last_in < begin_in ? begin_in : last_in;
      const auto spread_row = [&](const index_t *origin, index_t kz, index_t ky,
                                  A *to) TENON_LAMBDA {
        for (index_t l = 0; l < begin_in * P::pixel; ++l)
          to[l] = A(0);
        for (index_t l = end_in * P::pixel; l < P::row; ++l)
          to[l] = A(0);
        const conv_point<rank> from = conv_tap_row<rank>(cfg, origin, kz, ky, iw + begin_in);
        if (end_in > begin_in)
          spread_pixels(block, x.data + x.offset(from.at), x.strides.template get<rank - 1>(),
                        x.strides.template get<1>(), end_in - begin_in, to + begin_in * P::pixel);
      };
      index_t spread = first * index_t(cfg.stride_h); // rows before it, from the padding's first on
      for (index_t oh = first; oh < stop; ++oh) {
        const index_t top = oh * index_t(cfg.stride_h);
        const conv_point<rank> corner(it.at[1], block.channel, id, top - index_t(cfg.pad_top), iw);
        const conv_window window = conv_taps_of<rank>(cfg, corner.at);
        for (index_t ky = window.ky_begin; ky < window.ky_end; ++ky) {
          const index_t slot = keeps_rows ? (top + ky) % kernel_h : ky;
          const bool known = keeps_rows && top + ky < spread;
          for (index_t kz = window.kz_begin; kz < window.kz_end; ++kz) {
            A *to = patch + (kz * kernel_h + slot) * P::row;
            lines[kz * kernel_h + ky] = to;
            if (!known)
              spread_row(corner.at, kz, ky, to);
          }
        }
        if (top + kernel_h > spread)
          spread = top + kernel_h;
        const conv_point<rank> at(it.at[1], it.at[0] * width, od, oh, ow);
        const index_t rows = index_t(cfg.out_w) - ow;
        if (block.lanes == width)
          groups_tile<rank>(cfg, lines, window, panel, at.at, rows, fixed<width>{}, outs, ins,
                            body);
        else
          groups_tile<rank>(cfg, lines, window, panel, at.at, rows, block.lanes, outs, ins, body);
      }
    }
  };
  // A piece worth handing to another thread is about a quarter of a million multiply-adds.
  const index_t unit = segment * mr * kernel_d * kernel_h * P::kernel_w * P::pixel;
  workers.parallel_for(space.size(), 1 + (index_t(1) << 18) / unit, run);
}

} // namespace cpu
} // namespace tenon

#endif
