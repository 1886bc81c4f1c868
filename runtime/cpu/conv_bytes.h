// Defines conv_bytes: convolution and matrix product of 8-bit integers with exact 32-bit sums.
//
//   y[n, k, oh, ow] = body(sum over taps and channels of (x[...] - zero) * w[k, ...], ins...)
//
// The patches of some outputs, numbered along height and width as one dimension, are first copied
// to the stack, with the zero point outside the image: channels four to a word, so that whatever
// the layout, the stride and the padding, the sums run along one line. A register tile then takes
// `mr` patches times `nr` filters: four products a lane at a time (common/byte_products.h), by the
// instruction that the machine has; where it has tile registers, those take larger ones
// (cpu/conv_tiles.h). four_products cannot subtract the zero point from x: its sums
// start at minus the zero point times the sum of the filter's weights.
//
// Config: batch, in_h, in_w, out_h, out_w, filters, channels, kernel_h, kernel_w, stride_h,
//   stride_w, dilation_h, dilation_w, pad_top, pad_left as in conv.h, without groups; filters,
//   channels and kernel fixed
//   mr, nr            schedule: outputs and filters of a tile; nr a multiple of the vector's lanes
//   row_runs          a run is a row of taps of one channel, by channel and row; else the channels
//                     of a tap, by row and column
//   fits_pairs        weights of a filter in words 2 i and 2 i + 1 of its line are never both -128,
//                     which NEON without dot products gains by
// x: view over (n, c, h, w) of int8_t or uint8_t. Its runs are filled up to multiples of four.
// w: int8_t [ceil(filters / lanes)][runs][ceil(run / 4)][lanes][4], zeros where something is
// missing, so that what a tile register holds lies together. sums: of each filter's weights,
// [ceil(filters / lanes) * lanes]. zero: of x. outs, ins: packs of views over (n, k, oh, ow); lanes
// run along k.
#ifndef TENON_RUNTIME_CPU_CONV_BYTES_H
#define TENON_RUNTIME_CPU_CONV_BYTES_H

#include "cpu/byte_sums.h"
#include "cpu/conv_tiles.h"
#include "cpu/held_inputs.h"

namespace tenon {
namespace cpu {
namespace detail {

/// Patches of `places` as How multiplies them: of each, halves of `room` words. All are gathered
/// before the first is converted: vectors that read what bytes have just been written would wait.
template <class How, class Cfg, class X>
TENON_FN void make_patches(const Cfg &cfg, const X &x, index_t n, const index_t (*places)[2],
                           index_t count, int32_t zero, uint32_t *patches) {
  using T = bare<typename X::element>;
  using L = native_lanes;
  constexpr index_t room = byte_runs<Cfg>::room, patch = How::halves * room,
                    bytes = (How::halves - 1) * room; // where they are converted in place
  for (index_t p = 0; p < count; ++p)
    gather_window(cfg, x, n, places[p], zero,
                  reinterpret_cast<uint8_t *>(patches + p * patch + bytes));
  if constexpr (How::halves > 1 || How::template offset<T> != 0)
    for (index_t p = 0; p < count; ++p, patches += patch)
      for (index_t g = 0; g < room; g += L::width) {
        const i32<L> four = convert<i32<L>>(load<L>(patches + bytes + g));
        unroll<How::halves>([&](auto half) TENON_LAMBDA {
          store<L>(
              patches + int(half) * room + g,
              convert<u32<L>>(How::template from_bytes<L, T, decltype(half)::value>(four, zero)));
        });
      }
}

/// One register tile: MR patches, NV vectors of filters; stores `rows` outputs, `count` filters.
/// places: row and column of each output.
template <class How, int MR, int NV, class Cfg, class Count, class Outs, class Ins, class Body>
TENON_TILE void bytes_tile(const Cfg &, const uint32_t *patches, const int8_t *panel,
                           const int32_t *sums, int32_t start, const index_t *at_,
                           const index_t (*places)[2], index_t rows, Count, const Outs &outs,
                           const Ins &ins, const Body &body) {
  using L = native_lanes;
  constexpr index_t room = byte_runs<Cfg>::room, words = byte_runs<Cfg>::words;
  byte_sums<How, MR, NV> acc;
  unroll<NV>([&](auto v) TENON_LAMBDA {
    i32<L> first = i32<L>{};
    if constexpr (!How::subtracts_zero)
      first = load<L>(sums + int(v) * L::width) * start;
    acc.template start<decltype(v)::value>(first);
  });
  constexpr int step = byte_sums<How, MR, NV>::words, rest = int(words % step);
  constexpr index_t group = 4 * L::width; // bytes of weights beside a word
  const auto add = [&](auto count, index_t g) TENON_LAMBDA {
    acc.template add<decltype(count)::value>(patches + g, room, panel + g * group, words * group);
  };
  for (index_t g = 0; g < words - rest; g += step)
    add(counter<step>{}, g);
  if constexpr (rest != 0)
    add(counter<rest>{}, words - rest);
  // Through memory, so that the body stands in the code but once for each vector.
  alignas(64) int32_t results[MR][NV * L::width];
  unroll<MR>([&](auto r) TENON_LAMBDA {
    unroll<NV>([&](auto v) TENON_LAMBDA {
      store<L>(results[r] + int(v) * L::width,
               acc.template get<decltype(r)::value, decltype(v)::value>());
    });
  });
  const Outs to = outs; // what a store of bytes cannot change
  unroll<NV>([&](auto v) TENON_LAMBDA {
    constexpr index_t left = Count::value - int(v) * L::width;
    constexpr fixed<(left < L::width ? left : L::width)> count{};
    index_t at[4] = {at_[0], at_[1] + int(v) * L::width, 0, 0};
    const auto held = hold_inputs<L, 1>(ins, at, count);
    for (index_t r = 0; r < MR && r < rows; ++r) {
      at[2] = places[r][0];
      at[3] = places[r][1];
      apply_body<L, 1>(body, to, held, at, count, load<L>(results[r] + int(v) * L::width));
    }
  });
}

/// conv_bytes with the products How.
template <class How, class Cfg, class X, class Outs, class Ins, class Body>
void conv_bytes_by(const Cfg &cfg, const X &x, const int8_t *w, const int32_t *sums, int32_t zero,
                   const Outs &outs, const Ins &ins, const Body &body, pool &workers) {
  using T = bare<typename X::element>;
  using R = byte_runs<Cfg>;
  constexpr int mr = Cfg::mr, nr = Cfg::nr, width = native_lanes::width;
  static_assert(nr % width == 0, "nr is a whole number of vectors");
  constexpr index_t filters = decltype(cfg.filters)::value, blocks = ceil_div(filters, nr),
                    patch = How::halves * R::room, panel = 4 * nr * R::words;
  // As many tiles as stay in the first cache share one reading of the weights.
  constexpr index_t most = (index_t(24) << 10) / (4 * patch * mr), tiles = most < 1 ? 1 : most,
                    chunk = tiles * mr;
  const index_t pixels = index_t(cfg.out_h) * index_t(cfg.out_w);
  odometer<3> space;
  space.extents[0] = cfg.batch;
  space.extents[1] = ceil_div(pixels, chunk);
  space.extents[2] = blocks;
  const int32_t start = -(zero + How::template offset<T>);

  const auto run = [&](index_t begin, index_t end) {
    const subnormals_as_zero guard;
    alignas(64) uint32_t patches[chunk * patch];
    index_t places[chunk][2];
    // Tails of runs meet weights of 0, and a last tile computes more than it stores.
    const index_t used = ceil_div(pixels, mr) < tiles ? ceil_div(pixels, mr) : tiles;
    for (index_t i = 0; i < used * mr * patch; ++i)
      patches[i] = 0;
    odometer<3> it = space;
    it.seek(begin);
    for (index_t u = begin; u < end; ++u, it.step()) {
      const index_t first = it.at[1] * chunk, block = it.at[2];
      const index_t count = pixels - first < chunk ? pixels - first : chunk;
      if (u == begin || block == 0) {
        make_places(cfg, first, count, places);
        make_patches<How>(cfg, x, it.at[0], places, count, zero, patches);
      }
      const index_t at[2] = {it.at[0], block * nr};
      const auto all = [&](auto vectors, auto filters_of_block) TENON_LAMBDA {
        for (index_t p = 0; p < count; p += mr)
          bytes_tile<How, mr, decltype(vectors)::value>(
              cfg, patches + p * patch, w + block * panel, sums + block * nr, start, at, places + p,
              count - p, filters_of_block, outs, ins, body);
      };
      constexpr index_t rest = filters % nr;
      if constexpr (filters >= nr)
        if (block < filters / nr)
          all(counter<nr / width>{}, fixed<nr>{});
      if constexpr (rest != 0)
        if (block == filters / nr)
          all(counter<int(ceil_div(rest, width))>{}, fixed<rest>{});
    }
  };
  // A piece worth handing to another thread is about half a million multiply-adds.
  workers.parallel_for(space.size(), 1 + (index_t(1) << 19) / (chunk * panel), run);
}

} // namespace detail

template <class Cfg, class X, class Outs, class Ins, class Body>
void conv_bytes(const Cfg &cfg, const X &x, const int8_t *w, const int32_t *sums, int32_t zero,
                const Outs &outs, const Ins &ins, const Body &body, pool &workers) {
#if TENON_TILE_PRODUCTS
  if constexpr (detail::fits_tiles<Cfg>)
    if (has_tile_products && detail::fills_tiles(cfg))
      return detail::conv_bytes_by_tiles(cfg, x, w, sums, zero, outs, ins, body, workers);
#endif
  detail::by_byte_products<Cfg>([&](auto how) TENON_LAMBDA {
    detail::conv_bytes_by<decltype(how)>(cfg, x, w, sums, zero, outs, ins, body, workers);
  });
}

} // namespace cpu
} // namespace tenon

#endif
