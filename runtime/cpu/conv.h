// Defines conv: 2-d and 3-d convolution (1-d with h = 1), register-blocked, without im2col.
//
//   y[n, g*filters + k, oh, ow] = body(sum over c, ky, kx of
//       x[n, g*channels + c, ih, iw] * w[g, k, c, ky, kx], ins...)
//   ih = oh*stride_h - pad_top + ky*dilation_h
//   iw = ow*stride_w - pad_left + kx*dilation_w
// Volumes have a depth d before h, with kz over kernel_d planes.
//
// One register tile computes `mr` neighbouring output columns times `nr` filters: for every tap and
// channel, nr weights are loaded once and each of mr inputs is broadcast against them. Inputs are
// read where they lie, at constant distances from one pointer. A tile that touches the left or
// right padding, or hangs over the right edge, first copies its patch, with zeros, to the stack and
// reads that; so the hot loop never tests a bound. Rows outside the image are left out of the sum.
// mr = 1 needs no patch: it narrows the range of taps instead (firmware: no stack, any stride).
//
// Config (derive from conv_defaults and override; `fixed` or `dyn` unless noted):
//   batch, out_h, out_w, in_h, in_w
//   groups, filters, channels     filters and channels of one group; `channels` must be fixed
//   kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left   fixed
//   out_d, in_d, kernel_d, stride_d, dilation_d, pad_front   of volumes: the same for their depth
//   mr, nr                        schedule, static constexpr int; nr a multiple of lanes::width
//   filters_outer                 schedule: for each block of filters all pixels (default; the
//                                 block of weights stays in cache), or for each tile of pixels all
//                                 filters of all groups (right with a prologue or pack_input, where
//                                 the patch is made once, and for groups that share lines of x)
//   pack_input                    schedule: always copy the patch. For pixel distances that are
//                                 multiples of 4 KiB, which would share one cache set
//   lanes, accumulator            types; native_lanes and the computing type of x
//
// x: view over (n, c, h, w) or (n, c, d, h, w), any strides; direct reads need c and w strides that
// are `fixed`. Best is NHWC (c stride fixed<1>); NCHW is right for few channels, the first layer.
// An output with w taken as all of h*w (out_h = 1) is the way to run a 1x1 convolution of stride 1.
// w: [groups][ceil(filters/nr)][kernel_d][kernel_h][kernel_w][channels][nr], zeros in missing
// filters; any storage type. outs, ins: packs of views over (n, k, [od,] oh, ow); lanes run along
// k, so its stride should be fixed<1>. prologue(L, a, s0[c], ...): applied to in-bounds inputs;
// prologue_ins: pack of views over (c).
//
// Choosing mr and nr, with V = nr / width registers for a row, of 32 (AVX-512) or 16 registers:
//   V  = min(4, ceil(filters / width)), at most 3 when that wastes fewer lanes (48 filters: 3), and
//        2 for many filters
//   mr = (registers - 3) / V rounded down, then lowered to ceil(out_w / tiles) with
//        tiles = ceil(out_w / mr), so that the last tile is not nearly empty
// Where out_w is `dyn`, a last tile of at most half the columns computes (mr + 1) / 2. That gives
// 14x32, 9x48, 28x16 with AVX-512 and 6x16 with AVX2. choose_conv_tile() below is that rule.
#ifndef TENON_RUNTIME_CPU_CONV_H
#define TENON_RUNTIME_CPU_CONV_H

#include "common/mul_add.h"
#include "cpu/conv_window.h"
#include "cpu/epilogue.h"
#include "cpu/odometer.h"
#include "cpu/pool.h"
#include "cpu/prefetch.h"
#include "cpu/subnormals.h"
#include "cpu/unroll.h"

namespace tenon {
namespace cpu {

struct conv_defaults {
  static constexpr fixed<1> groups{};
  static constexpr fixed<1> stride_h{}, stride_w{}, dilation_h{}, dilation_w{};
  static constexpr fixed<0> pad_top{}, pad_left{};
  static constexpr fixed<1> in_d{}, out_d{}, kernel_d{}, stride_d{}, dilation_d{}; // a plane
  static constexpr fixed<0> pad_front{};
  static constexpr bool filters_outer = true;
  static constexpr bool pack_input = false;
  static constexpr int weight_bits = 8, element_bytes = 1, joined = 0, turned = 0, plain = 0;
  static constexpr bool fits_pairs = false, fits_signs = false, row_runs = false;
  static constexpr int short_words = 0;
  using lanes = native_lanes;
};

/// A register tile by the rule of thumb in this file's head.
struct conv_tile_shape {
  int mr, nr;
};
constexpr conv_tile_shape choose_conv_tile(index_t out_w, index_t filters, int width,
                                           int registers) {
  const index_t vectors = ceil_div(filters, width);
  index_t v = vectors <= 2 ? vectors : vectors % 2 != 0 && vectors <= 3 ? vectors : 2;
  index_t mr = (registers - 2) / v - (v == 1 ? 2 : 1);
  if (out_w < mr / 2 && vectors >= 4) { // narrow images: more filters keep the units busy
    v = 4;
    mr = (registers - 4) / v;
  }
  mr = mr < 1 ? 1 : mr;
  const index_t tiles = ceil_div(out_w, mr);
  return {int(ceil_div(out_w, tiles)), int(v * width)};
}

namespace detail {

/// What a tile reads: pixel r, tap kx, channel c of row ky of plane kz is
/// data[kz*plane + ky*row + r*pixel + kx*tap + c*channel].
template <class T, class Pixel, class Tap, class Channel> struct conv_source {
  const T *data;
  Pixel pixel;
  Tap tap;
  Channel channel;
  index_t row, plane;
};

template <class P, class A, class Ins, int... I>
TENON_FN A apply_prologue(indices<I...>, const P &prologue, A a, const Ins &ins, index_t c) {
  [[maybe_unused]] const index_t at[1] = {c};
  return prologue(scalar_lanes{}, a,
                  load_at<scalar_lanes, 0>(ins.template get<I>(), at, fixed<1>{})...);
}

/// One register tile: MR pixels from `at`, a point of views of rank Rank, NV vectors of filters;
/// stores `rows` pixels, `count` filters.
template <int Rank, int MR, int NV, class Cfg, class Source, class W, class Count, class Outs,
          class Ins, class Body, class Prologue, class PrologueIns>
TENON_TILE void conv_tile(const Cfg &cfg, const Source &source, const conv_window &window,
                          const W *panel, const index_t *at, index_t rows, Count count,
                          const Outs &outs, const Ins &ins, const Body &body,
                          const Prologue &prologue, const PrologueIns &prologue_ins,
                          index_t channel0) {
  using L = typename Cfg::lanes;
  using A = typename Cfg::accumulator;
  using V = typename L::template of<A>;
  constexpr index_t channels = decltype(cfg.channels)::value;
  constexpr index_t kernel_h = decltype(cfg.kernel_h)::value,
                    kernel_w = decltype(cfg.kernel_w)::value;
  constexpr bool inline_prologue = !is_same<Prologue, no_prologue>;
  // Taps of a row that follow each other in memory are one longer loop.
  constexpr bool merged = !inline_prologue && is_same<decltype(Source::channel), fixed<1>> &&
                          is_same<decltype(Source::tap), fixed<channels>>;

  V acc[MR][NV];
  unroll<MR>([&](auto r)
                 TENON_LAMBDA { unroll<NV>([&](auto v) TENON_LAMBDA { acc[r][v] = V{}; }); });

  // Weights that do not stay in the first cache come from the second, too late for what would
  // begin to load them by itself.
  constexpr index_t step = Cfg::nr * index_t(sizeof(W));
  constexpr bool streams = MR > 1 && kernel_h * kernel_w * channels * step > 16384;
  [[maybe_unused]] constexpr index_t ahead = ceil_div(2048, step);

  const index_t kx_begin = MR == 1 ? window.kx_begin : 0,
                kx_end = MR == 1 ? window.kx_end : kernel_w;
  const index_t taps = merged ? 1 : kx_end - kx_begin;
  const index_t depth = merged ? (kx_end - kx_begin) * channels : channels;
  const auto add_row = [&](const auto *tap, const W *w) TENON_LAMBDA {
    for (index_t kx = 0; kx < taps; ++kx, tap += source.tap) {
      for (index_t c = 0; c < depth; ++c, w += Cfg::nr) {
        if constexpr (streams)
          unroll<NV>([&](auto v)
                         TENON_LAMBDA { prefetch(w + ahead * Cfg::nr + int(v) * L::width); });
        V weights[NV];
        unroll<NV>([&](auto v)
                       TENON_LAMBDA { weights[v] = convert<V>(load<L>(w + int(v) * L::width)); });
        unroll<MR>([&](auto r) TENON_LAMBDA {
          A a = A(load_element(tap + int(r) * source.pixel + c * source.channel));
          if constexpr (inline_prologue)
            a = apply_prologue(indices_to<PrologueIns::count>{}, prologue, a, prologue_ins,
                               channel0 + c);
          const V x = broadcast<L, A>(a);
          unroll<NV>([&](auto v) TENON_LAMBDA { acc[r][v] = mul_add(x, weights[v], acc[r][v]); });
        });
      }
    }
  };
  const auto add_plane = [&](const auto *data, index_t kz) TENON_LAMBDA {
    for (index_t ky = window.ky_begin; ky < window.ky_end; ++ky)
      add_row(data + ky * source.row + kx_begin * source.tap,
              panel + ((kz * kernel_h + ky) * kernel_w + kx_begin) * channels * Cfg::nr);
  };
  if constexpr (Rank == 5) {
    for (index_t kz = window.kz_begin; kz < window.kz_end; ++kz)
      add_plane(source.data + kz * source.plane, kz);
  } else {
    add_plane(source.data, 0);
  }

  unroll<MR>([&](auto r) TENON_LAMBDA {
    if (int(r) < rows)
      unroll<NV>([&](auto v) TENON_LAMBDA {
        index_t point[Rank];
        for (int d = 0; d < Rank; ++d)
          point[d] = at[d];
        point[1] += int(v) * L::width;
        point[Rank - 1] += int(r);
        if constexpr (Count::is_fixed) {
          constexpr index_t left = Count::value - int(v) * L::width;
          apply_body<L, 1>(body, outs, ins, point, fixed<(left < L::width ? left : L::width)>{},
                           acc[r][v]);
        } else {
          const index_t left = count - int(v) * L::width;
          if (left >= L::width)
            apply_body<L, 1>(body, outs, ins, point, fixed<L::width>{}, acc[r][v]);
          else if (left > 0)
            apply_body<L, 1>(body, outs, ins, point, left, acc[r][v]);
        }
      });
  });
}

/// Copies the patch of `span` columns from `origin` on, the window's rows, with zeros left and
/// right of the image.
template <class Cfg, class X, class A, class Prologue, class PrologueIns, int... I>
TENON_FN void conv_pack(indices<I...>, const Cfg &cfg, const X &x, const index_t *origin,
                        const conv_window &window, index_t span, A *patch, const Prologue &prologue,
                        const PrologueIns &prologue_ins) {
  using L = typename Cfg::lanes;
  constexpr int rank = X::rank;
  constexpr index_t channels = decltype(cfg.channels)::value,
                    kernel_h = decltype(cfg.kernel_h)::value;
  const auto pack_row = [&](index_t kz, index_t ky) TENON_LAMBDA {
    A *to = patch + (kz * kernel_h + ky) * span * channels;
    for (index_t i = 0; i < span; ++i, to += channels) {
      const index_t iw = origin[rank - 1] + i;
      if (iw < 0 || iw >= index_t(cfg.in_w)) {
        for (index_t c = 0; c < channels; ++c)
          to[c] = A(0);
        continue;
      }
      const conv_point<rank> at = conv_tap_row<rank>(cfg, origin, kz, ky, iw);
      const auto *from = x.data + x.offset(at.at);
      const auto stride = x.strides.template get<1>();
      const auto move = [&](auto lanes, index_t c) TENON_LAMBDA {
        using M = decltype(lanes);
        using MV = typename M::template of<A>;
        [[maybe_unused]] const index_t channel[1] = {origin[1] + c};
        const MV a = convert<MV>(load_strided<M>(from + c * index_t(stride), stride));
        store<M>(to + c, MV(prologue(lanes, a,
                                     load_at<M, 0>(prologue_ins.template get<I>(), channel,
                                                   fixed<M::width>{})...)));
      };
      index_t c = 0;
      for (; c + L::width <= channels; c += L::width)
        move(L{}, c);
      for (; c < channels; ++c)
        move(scalar_lanes{}, c);
    }
  };
  for (index_t kz = window.kz_begin; kz < window.kz_end; ++kz)
    for (index_t ky = window.ky_begin; ky < window.ky_end; ++ky)
      pack_row(kz, ky);
}

} // namespace detail

template <class Cfg, class X, class W, class Outs, class Ins, class Body,
          class Prologue = no_prologue, class PrologueIns = arguments<>>
void conv(const Cfg &cfg, const X &x, const W *w, const Outs &outs, const Ins &ins,
          const Body &body, pool &workers, const Prologue &prologue = {},
          const PrologueIns &prologue_ins = {}) {
  using namespace detail;
  using L = typename Cfg::lanes;
  using A = typename Cfg::accumulator;
  constexpr int mr = Cfg::mr, nr = Cfg::nr;
  static_assert(nr % L::width == 0, "nr is a whole number of vectors");
  constexpr int rank = X::rank;
  constexpr index_t channels = decltype(cfg.channels)::value;
  constexpr index_t kernel_d = decltype(cfg.kernel_d)::value,
                    kernel_h = decltype(cfg.kernel_h)::value,
                    kernel_w = decltype(cfg.kernel_w)::value;
  constexpr index_t stride_w = decltype(cfg.stride_w)::value,
                    dilation_w = decltype(cfg.dilation_w)::value;
  constexpr bool has_prologue = !is_same<Prologue, no_prologue>;

  const auto column = x.strides.template get<rank - 1>();
  const auto pixel = product(column, cfg.stride_w);
  const auto tap = product(column, cfg.dilation_w);
  const auto channel = x.strides.template get<1>();
  constexpr bool direct =
      mr == 1 || (!Cfg::pack_input && !has_prologue && decltype(pixel)::is_fixed &&
                  decltype(tap)::is_fixed && decltype(channel)::is_fixed);

  const index_t blocks = ceil_div(cfg.filters, nr), tiles = ceil_div(cfg.out_w, mr);
  constexpr index_t panel_size = kernel_d * kernel_h * kernel_w * channels * nr;
  constexpr index_t span = (mr - 1) * stride_w + (kernel_w - 1) * dilation_w + 1;
  constexpr index_t patch_size = mr == 1 ? 1 : kernel_d * kernel_h * span * channels;
  // A width known only at run time may leave little for the last tile: half a one does for that.
  constexpr int half = decltype(cfg.out_w)::is_fixed || mr < 3 ? mr : (mr + 1) / 2;
  // Dimensions of the outer loop: [group, block], image, [plane], row, tile, [group, block].
  constexpr int group_dim = Cfg::filters_outer ? 0 : rank - 1, block_dim = group_dim + 1,
                pixel_dim = Cfg::filters_outer ? 2 : 0, row_dim = pixel_dim + rank - 3;
  odometer<rank + 1> space;
  space.extents[group_dim] = cfg.groups;
  space.extents[block_dim] = blocks;
  space.extents[pixel_dim] = cfg.batch;
  if constexpr (rank == 5)
    space.extents[pixel_dim + 1] = cfg.out_d;
  space.extents[row_dim] = cfg.out_h;
  space.extents[row_dim + 1] = tiles;

  const auto run = [&](index_t begin, index_t end) {
    const subnormals_as_zero guard;
    alignas(64) A patch[patch_size];
    odometer<rank + 1> it = space;
    it.seek(begin);
    bool packed = false;
    for (index_t u = begin; u < end; ++u, it.step()) {
      const index_t group = it.at[group_dim], block = it.at[block_dim], n = it.at[pixel_dim],
                    od = rank == 5 ? it.at[pixel_dim + 1] : 0, oh = it.at[row_dim],
                    ow = it.at[row_dim + 1] * mr;
      const index_t id = od * index_t(cfg.stride_d) - index_t(cfg.pad_front);
      const index_t ih = oh * index_t(cfg.stride_h) - index_t(cfg.pad_top);
      const index_t iw = ow * stride_w - index_t(cfg.pad_left);
      const index_t dilation_h = cfg.dilation_h;
      const index_t rows = index_t(cfg.out_w) - ow, wide = rows <= half ? half : mr;
      const index_t filter = block * nr, left = index_t(cfg.filters) - filter;
      const conv_point<rank> first(n, group * index_t(cfg.filters) + filter, od, oh, ow),
          corner(n, group * channels, id, ih, iw);
      const index_t *at = first.at, *origin = corner.at;
      conv_window window = conv_taps_of<rank>(cfg, origin);
      const W *panel = w + (group * blocks + block) * panel_size;

      // The blocks that are full and, when there is one, the last with fewer vectors.
      const auto tile = [&](auto tall, const auto &source, const auto &pro,
                            const auto &pro_ins) TENON_LAMBDA {
        constexpr int height = int(decltype(tall)::value);
        constexpr int vectors = nr / L::width;
        if constexpr (decltype(cfg.filters)::is_fixed) {
          constexpr index_t filters = decltype(cfg.filters)::value, rest = filters % nr;
          if constexpr (filters >= nr)
            if (left >= nr)
              return conv_tile<rank, height, vectors>(cfg, source, window, panel, at, rows,
                                                      fixed<nr>{}, outs, ins, body, pro, pro_ins,
                                                      origin[1]);
          if constexpr (rest != 0)
            conv_tile<rank, height, int(ceil_div(rest, L::width))>(cfg, source, window, panel, at,
                                                                   rows, fixed<rest>{}, outs, ins,
                                                                   body, pro, pro_ins, origin[1]);
        } else
          conv_tile<rank, height, vectors>(cfg, source, window, panel, at, rows, dyn(left), outs,
                                           ins, body, pro, pro_ins, origin[1]);
      };
      const auto finish = [&](const auto &source, const auto &pro, const auto &pro_ins)
                              TENON_LAMBDA {
                                if constexpr (half < mr)
                                  if (wide == half)
                                    return tile(fixed<half>{}, source, pro, pro_ins);
                                tile(fixed<mr>{}, source, pro, pro_ins);
                              };

      if constexpr (direct) {
        bool inside =
            iw >= 0 &&
            iw + (wide - 1) * stride_w + (kernel_w - 1) * dilation_w < index_t(cfg.in_w) &&
            rows >= wide;
        if constexpr (mr == 1) {
          const tap_span columns = conv_taps(iw, kernel_w, dilation_w, cfg.in_w);
          window.kx_begin = columns.begin;
          window.kx_end = columns.end < columns.begin ? columns.begin : columns.end;
          inside = true;
        }
        if (inside) {
          using T = bare<typename X::element>;
          const conv_source<T, bare<decltype(pixel)>, bare<decltype(tap)>, bare<decltype(channel)>>
              source{x.data + x.offset(origin),
                     pixel,
                     tap,
                     channel,
                     index_t(x.strides.template get<rank - 2>()) * dilation_h,
                     rank == 5 ? index_t(x.strides.template get<2>()) * index_t(cfg.dilation_d)
                               : 0};
          finish(source, prologue, prologue_ins);
          continue;
        }
      }
      if constexpr (mr > 1) {
        if (Cfg::filters_outer || block == 0 || !packed)
          conv_pack(indices_to<PrologueIns::count>{}, cfg, x, origin, window, span, patch, prologue,
                    prologue_ins);
        packed = true;
        const conv_source<A, fixed<stride_w * channels>, fixed<dilation_w * channels>, fixed<1>>
            source{patch, {}, {}, {}, span * channels, kernel_h * span * channels};
        finish(source, no_prologue{}, arguments<>{});
      }
    }
  };
  // A piece worth handing to another thread is about a quarter of a million multiply-adds.
  workers.parallel_for(space.size(), 1 + (index_t(1) << 18) / (mr * panel_size), run);
}

} // namespace cpu
} // namespace tenon

#endif
