// Defines conv_bytes: convolution and matrix product of 8-bit integers with exact 32-bit sums. That
// of bf16 (cpu/conv_bf16.h) is the same with two elements to a word and sums in f32.
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
//   short_words       how many words of a filter's weights x86-64 without VNNI may add in 16 bits,
//                     but for those in `wide`; 0, 1 or 2. A word that is left over fits
//   fits_signs        no weight is -128, which it gains by where short_words is 0
// x: view over (n, c, h, w) of int8_t or uint8_t. Its runs are filled up to multiples of four.
// w: int8_t [ceil(filters / lanes)][runs][ceil(run / 4)][lanes][4], zeros where something is
// missing, so that what a tile register holds lies together. sums: of each filter's weights,
// [ceil(filters / lanes) * lanes]. zero: of x. outs, ins: packs of views over (n, k, oh, ow); lanes
// run along k. zeros: of the weights (cpu/byte_sums.h); without them none of a window's sum of x is
// computed. wide: the groups of short_words words that must be added in 32 bits, of each block of
// nr filters.
#ifndef TENON_RUNTIME_CPU_CONV_BYTES_H
#define TENON_RUNTIME_CPU_CONV_BYTES_H

#include "cpu/byte_sums.h"
#include "cpu/conv_tiles.h"
#include "cpu/held_inputs.h"
#include "cpu/sum_lanes.h"

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

/// The sum of x less the zero point for each of `count` patches of make_patches.
template <class How, class Cfg, class T>
TENON_FN void sum_patches(const uint32_t *patches, index_t count, int32_t zero, int32_t *windows) {
  using L = native_lanes;
  using P = bytes_of_patch<Cfg>;
  constexpr index_t room = byte_runs<Cfg>::room;
  constexpr int32_t offset = How::template offset<T>;
  const int32_t start = How::subtracts_zero ? 0 : -(zero + offset) * int32_t(P::depth);
  for (index_t p = 0; p < count; ++p, patches += How::halves * room) {
    i32<L> sum = i32<L>{};
    for (index_t g = 0; g < byte_runs<Cfg>::words; g += L::width)
      unroll<How::halves>([&](auto half) TENON_LAMBDA {
        sum = add_bytes<How, decltype(half)::value>(
            sum, convert<i32<L>>(load<L>(patches + int(half) * room + g)), P::from(g));
      });
    windows[p] = start + sum_lanes<int32_t>(sum);
  }
}

/// One register tile: MR patches, NV vectors of filters; stores `rows` outputs, `count` filters.
/// places: row and column of each output.
template <class How, int MR, int NV, class Cfg, class Count, class Outs, class Ins, class Body,
          class Zeros, class Wide>
TENON_TILE void bytes_tile(const Cfg &, const uint32_t *patches, const int8_t *panel,
                           const int32_t *sums, int32_t start, const index_t *at_,
                           const index_t (*places)[2], index_t rows, Count, const Outs &outs,
                           const Ins &ins, const Body &body, const Zeros &zeros,
                           const int32_t *windows, const Wide &wide, index_t block) {
  using L = native_lanes;
  constexpr index_t room = byte_runs<Cfg>::room, words = byte_runs<Cfg>::words;
  byte_sums<How, MR, NV> acc;
  unroll<NV>([&](auto v) TENON_LAMBDA {
    auto first = broadcast<L>(typename How::sum(0));
    if constexpr (!How::subtracts_zero)
      first = load<L>(sums + int(v) * L::width) * start;
    acc.template start<decltype(v)::value>(first);
  });
  constexpr int step = byte_sums<How, MR, NV>::words, rest = int(words % step);
  constexpr index_t group = 4 * L::width; // bytes of weights beside a word
  const auto add = [&](auto count, index_t g) TENON_LAMBDA {
    acc.template add<decltype(count)::value>(patches + g, room, panel + g * group, words * group);
  };
  index_t g = 0;
  if constexpr (Wide::any)
    if constexpr (How::is_short)
      for (uint32_t i = wide.starts[block]; i < wide.starts[block + 1]; ++i, g += step) {
        for (const index_t stop = step * index_t(wide.groups[i]); g < stop; g += step)
          add(counter<step>{}, g);
        acc.template add_wide<step>(patches + g, room, panel + g * group, words * group);
      }
  for (; g < words - rest; g += step)
    add(counter<step>{}, g);
  if constexpr (rest != 0)
    add(counter<rest>{}, words - rest);
  // Through memory, so that the body stands in the code but once for each vector.
  alignas(64) typename How::sum results[MR][NV * L::width];
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
      const auto sum = load<L>(results[r] + int(v) * L::width);
      if constexpr (Zeros::any)
        apply_body<L, 1>(body, to, held, at, count, zeros.apply(sum, at[1], windows[r]));
      else
        apply_body<L, 1>(body, to, held, at, count, sum);
    }
  });
}

/// conv_bytes with the products How.
template <class How, class Cfg, class X, class Outs, class Ins, class Body,
          class Zeros = no_weight_zeros, class Wide = no_wide_groups>
void conv_bytes_by(const Cfg &cfg, const X &x, const int8_t *w, const int32_t *sums, int32_t zero,
                   const Outs &outs, const Ins &ins, const Body &body, pool &workers,
                   const Zeros &zeros = {}, const Wide &wide = {}) {
  using T = bare<typename X::element>;
  using R = byte_runs<Cfg>;
  constexpr int mr = Cfg::mr, nr = Cfg::nr, width = native_lanes::width;
  static_assert(nr % width == 0, "nr is a whole number of vectors");
  constexpr index_t filters = decltype(cfg.filters)::value, blocks = ceil_div(filters, nr),
                    patch = How::halves * R::room, panel = 4 * nr * R::words;
  // As many tiles as stay in a cache share one reading of the weights.
  constexpr index_t most = How::chunk_bytes / (4 * patch * mr), tiles = most < 1 ? 1 : most,
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
    int32_t windows[Zeros::any ? chunk : 1];
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
        if constexpr (Zeros::any)
          sum_patches<How, Cfg, T>(patches, count, zero, windows);
      }
      const index_t at[2] = {it.at[0], block * nr};
      const auto all = [&](auto vectors, auto filters_of_block) TENON_LAMBDA {
        for (index_t p = 0; p < count; p += mr)
          bytes_tile<How, mr, decltype(vectors)::value>(
              cfg, patches + p * patch, w + block * panel,
              How::subtracts_zero ? sums : sums + block * nr, start, at, places + p, count - p,
              filters_of_block, outs, ins, body, zeros, windows + (Zeros::any ? p : 0), wide,
              block);
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

template <class Cfg, class X, class Outs, class Ins, class Body, class Zeros = no_weight_zeros,
          class Wide = no_wide_groups>
void conv_bytes(const Cfg &cfg, const X &x, const int8_t *w, const int32_t *sums, int32_t zero,
                const Outs &outs, const Ins &ins, const Body &body, pool &workers,
                const Zeros &zeros = {}, const Wide &wide = {}) {
#if TENON_TILE_PRODUCTS
  if constexpr (detail::fits_tiles<Cfg>)
    if (has_tile_products)
      return detail::conv_bytes_by_tiles(cfg, x, w, sums, zero, outs, ins, body, workers, zeros);
#endif
  detail::by_byte_products<Cfg>([&](auto how) TENON_LAMBDA {
    detail::conv_bytes_by<decltype(how)>(cfg, x, w, sums, zero, outs, ins, body, workers, zeros,
                                         wide);
  });
}

} // namespace cpu
} // namespace tenon

#endif
