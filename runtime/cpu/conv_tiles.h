// Defines conv_bytes_by_tiles: conv_bytes (cpu/conv_bytes.h) with tile registers, for patches whose
// words are some steps of at most 16.
//
// A block of at most 32 outputs times 32 filters has four tiles of sums; two more hold the patches
// and two the weights of a step. A tile has no more rows than share the outputs out evenly, since
// the time of a product is that of the rows of x. Patches are the elements as they are, so that
// those of a 1x1 convolution over neighbouring pixels need not be copied.
//
// Products take no time of the vector units: what is done with the sums of a block stands between
// the steps of the next one.
#ifndef TENON_RUNTIME_CPU_CONV_TILES_H
#define TENON_RUNTIME_CPU_CONV_TILES_H

#include "common/tile_products.h"
#include "cpu/byte_sums.h"
#include "cpu/conv_patches.h"
#include "cpu/held_inputs.h"
#include "cpu/sum_lanes.h"

#if TENON_TILE_PRODUCTS
namespace tenon {
namespace cpu {
namespace detail {

inline constexpr index_t tile_rows = 16;

/// How a problem is cut into tiles: `rows` patches and `words` words of each, `steps` times.
template <class Cfg> struct tile_shape {
  static constexpr index_t all = byte_runs<Cfg>::words;
  static constexpr index_t count_steps() {
    for (index_t steps = ceil_div(all, tile_rows); steps <= 2 * ceil_div(all, tile_rows); ++steps)
      if (all % steps == 0)
        return steps;
    return 0;
  }
  static constexpr index_t count_rows() {
    if constexpr (decltype(Cfg::out_h)::is_fixed && decltype(Cfg::out_w)::is_fixed) {
      constexpr index_t pixels = decltype(Cfg::out_h)::value * decltype(Cfg::out_w)::value;
      return ceil_div(pixels, 2 * ceil_div(pixels, 2 * tile_rows));
    }
    return 0;
  }
  static constexpr index_t steps = count_steps(), words = all / (steps == 0 ? 1 : steps),
                           rows = count_rows();
};

/// Whether it can be cut into tiles, and has enough outputs for them.
template <class Cfg>
inline constexpr bool fits_tiles =
    tile_shape<Cfg>::steps > 0 && tile_shape<Cfg>::words >= 4 && tile_shape<Cfg>::rows >= 4;

/// Whether output p of an image reads the pixel that lies p pixels behind the first.
template <class Cfg, class X> constexpr bool patches_in_place() {
  using R = byte_runs<Cfg>;
  using Channel = bare<decltype(X{}.strides.template get<1>())>;
  using Row = bare<decltype(X{}.strides.template get<2>())>;
  using Column = bare<decltype(X{}.strides.template get<3>())>;
  if constexpr (R::kernel_h == 1 && R::kernel_w == 1 && R::bytes % 4 == 0 && Row::is_fixed &&
                Column::is_fixed && decltype(Cfg::out_w)::is_fixed &&
                decltype(Cfg::stride_h)::is_fixed)
    return is_same<Channel, fixed<1>> && decltype(Cfg::stride_h)::value == 1 &&
           decltype(Cfg::stride_w)::value == 1 && decltype(Cfg::pad_top)::value == 0 &&
           decltype(Cfg::pad_left)::value == 0 &&
           Row::value == Column::value * decltype(Cfg::out_w)::value;
  else
    return false;
}

template <class Cfg, class X> struct reads_in_place {
  static constexpr bool value = patches_in_place<Cfg, X>();
};

/// What products of elements T are summed in.
template <class T> using tile_sum = typename choose_type<is_same<T, bf16>, float, int32_t>::type;

/// Sums of two tiles of patches, `stride` bytes apart, with NV panels of 16 filters, in rows of 32.
/// between() is called after each step.
template <class T, int NV, class Shape, class Between>
TENON_FN void tile_sums(const void *patches, index_t stride, const int8_t *panel,
                        tile_sum<T> *results, const Between &between) {
  constexpr index_t step = 4 * tile_rows * Shape::words; // bytes of weights
  const auto *x = static_cast<const uint8_t *>(patches);
  tile_zero<0>();
  tile_zero<2>();
  if constexpr (NV > 1) {
    tile_zero<1>();
    tile_zero<3>();
  }
  for (index_t k = 0; k < Shape::steps; ++k, x += 4 * Shape::words, panel += step) {
    tile_load<6>(panel, 4 * tile_rows);
    tile_load<4>(x, stride);
    tile_multiply_add<T, 0, 4, 6>();
    tile_load<5>(x + Shape::rows * stride, stride);
    tile_multiply_add<T, 2, 5, 6>();
    if constexpr (NV > 1) {
      tile_load<7>(panel + Shape::steps * step, 4 * tile_rows);
      tile_multiply_add<T, 1, 4, 7>();
      tile_multiply_add<T, 3, 5, 7>();
    }
    between();
  }
  constexpr index_t row = 4 * 2 * tile_rows;
  tile_store<0>(results, row);
  tile_store<2>(results + Shape::rows * 2 * tile_rows, row);
  if constexpr (NV > 1) {
    tile_store<1>(results + tile_rows, row);
    tile_store<3>(results + (2 * Shape::rows + 1) * tile_rows, row);
  }
}

/// The sum of x less the zero point for each of `count` patches, `stride` bytes apart.
template <class T, class Cfg>
TENON_FN void sum_plain_patches(const void *patches, index_t stride, index_t count, int32_t zero,
                                int32_t *windows) {
  using L = native_lanes;
  using P = bytes_of_patch<Cfg>;
  using How = four_products; // every machine with tile registers has them
  constexpr int32_t offset = How::template offset<T>;
  const auto *x = static_cast<const uint8_t *>(patches);
  for (index_t p = 0; p < count; ++p, x += stride) {
    i32<L> sum = i32<L>{};
    for (index_t g = 0; g < byte_runs<Cfg>::words; g += L::width) {
      i32<L> four;
      memcpy(&four, x + 4 * g, sizeof(four));
      sum = add_bytes<How, 0>(sum, How::template from_bytes<L, T, 0>(four, zero), P::from(g));
    }
    windows[p] = sum_lanes<int32_t>(sum) - (zero + offset) * int32_t(P::depth);
  }
}

/// A block of sums that wait for the body: of outputs at `places`, and panels of filters from
/// `filter` on. Rows before `next` are done.
template <class Sum> struct tile_results {
  const Sum *sums = nullptr;
  const index_t (*places)[2] = nullptr;
  const int32_t *windows = nullptr;
  index_t n = 0, filter = 0, panels = 0, rows = 0, next = 0;
};

/// The body for rows of `block` from its next one to `stop`.
template <class Cfg, class Sum, class Outs, class Ins, class Body, class Zeros>
TENON_TILE void finish_rows(const Cfg &, tile_results<Sum> &block, index_t stop,
                            const int32_t *sums, int32_t zero, const Outs &outs, const Ins &ins,
                            const Body &body, const Zeros &zeros) {
  using L = native_lanes;
  constexpr index_t width = L::width, filters = decltype(Cfg::filters)::value,
                    rest = filters % width;
  const Outs to = outs; // what a store of bytes cannot change
  const tile_results<Sum> from = block;
  stop = stop < from.rows ? stop : from.rows;
  block.next = stop;
  const auto panel = [&](index_t i, auto count) TENON_LAMBDA {
    index_t at[4] = {from.n, from.filter + i * width, 0, 0};
    auto start = broadcast<L>(Sum(0));
    if constexpr (is_same<Sum, int32_t>)
      start = load<L>(sums + at[1]) * -zero;
    const auto held = hold_inputs<L, 1>(ins, at, count);
    for (index_t r = from.next; r < stop; ++r) {
      at[2] = from.places[r][0];
      at[3] = from.places[r][1];
      const auto sum = load<L>(from.sums + (2 * r + i) * width) + start;
      apply_body<L, 1>(body, to, held, at, count,
                       zeros.apply(sum, at[1], from.windows[Zeros::any ? r : 0]));
    }
  };
  for (index_t i = 0; i < from.panels; ++i) {
    if constexpr (rest != 0)
      if (from.filter + (i + 1) * width > filters) {
        panel(i, fixed<rest>{});
        continue;
      }
    panel(i, fixed<width>{});
  }
}

template <class Cfg, class X, class Outs, class Ins, class Body, class Zeros = no_weight_zeros>
void conv_bytes_by_tiles(const Cfg &cfg, const X &x, const int8_t *w, const int32_t *sums,
                         int32_t zero, const Outs &outs, const Ins &ins, const Body &body,
                         pool &workers, const Zeros &zeros = {}) {
  using T = bare<typename X::element>;
  using R = byte_runs<Cfg>;
  using S = tile_shape<Cfg>;
  using L = native_lanes;
  static_assert(L::width == tile_rows, "a row of sums is a vector");
  constexpr index_t panels = ceil_div(decltype(cfg.filters)::value, tile_rows),
                    panel = 4 * tile_rows * R::words, step = 2 * S::rows, bytes = 4 * R::words;
  // As many patches as leave half of a second-level cache to the weights.
  constexpr index_t most = (index_t(256) << 10) / (bytes * step),
                    tiles = most < 1   ? 1
                            : most > 8 ? 8
                                       : most,
                    chunk = tiles * step;
  // Vectors that sum patches end with them.
  constexpr bool in_place =
      reads_in_place<Cfg, X>::value && (!Zeros::any || R::words % L::width == 0);
  const index_t pixels = index_t(cfg.out_h) * index_t(cfg.out_w);
  odometer<3> space;
  space.extents[0] = cfg.batch;
  space.extents[1] = ceil_div(pixels, chunk);
  space.extents[2] = ceil_div(panels, 4);

  const auto run = [&](index_t begin, index_t end) {
    const subnormals_as_zero guard;
    const tile_registers registers{int(S::rows), int(S::words)};
    alignas(64) uint32_t room[chunk * R::words + L::width];
    alignas(64) tile_sum<T> results[2][step * 2 * tile_rows];
    index_t places[chunk][2];
    int32_t windows[Zeros::any ? chunk : 1];
    tile_results<tile_sum<T>> waiting;
    int turn = 0;
    const auto finish = [&](index_t stop) TENON_LAMBDA {
      finish_rows(cfg, waiting, stop, sums, zero, outs, ins, body, zeros);
    };
    odometer<3> it = space;
    it.seek(begin);
    const void *patches = room;
    index_t stride = bytes;
    for (index_t u = begin; u < end; ++u, it.step()) {
      const index_t n = it.at[0], first = it.at[1] * chunk, line = it.at[2];
      const index_t count = pixels - first < chunk ? pixels - first : chunk;
      if (u == begin || line == 0) {
        finish(waiting.rows);
        make_places(cfg, first, count, places);
        // Whole tiles are read, so the last pixels are copied all the same.
        if (in_place && count % step == 0) {
          const index_t at[4] = {n, 0, places[0][0], places[0][1]};
          patches = x.data + x.offset(at);
          stride = R::element * index_t(x.strides.template get<3>());
        } else {
          patches = room;
          stride = bytes;
          for (index_t p = 0; p < count; ++p)
            gather_window(cfg, x, n, places[p], zero,
                          reinterpret_cast<uint8_t *>(room + p * R::words));
        }
        if constexpr (Zeros::any)
          sum_plain_patches<T, Cfg>(patches, stride, count, zero, windows);
      }
      const auto block = [&](index_t p, index_t first_panel, auto number) TENON_LAMBDA {
        constexpr int nv = decltype(number)::value;
        constexpr index_t slice = ceil_div(step, S::steps) < 4 ? 4 : ceil_div(step, S::steps);
        tile_sums<T, nv, S>(static_cast<const uint8_t *>(patches) + p * stride, stride,
                            w + first_panel * panel, results[turn], [&]() TENON_LAMBDA {
                              if (waiting.next < waiting.rows)
                                finish(waiting.next + slice);
                            });
        finish(waiting.rows);
        waiting = {results[turn],           places + p, windows + (Zeros::any ? p : 0),      n,
                   first_panel * tile_rows, nv,         count - p < step ? count - p : step, 0};
        turn ^= 1;
      };
      // A line of bytes is written while it is in the first cache, and a patch read so.
      const index_t stop = panels - 4 * line < 4 ? panels : 4 * line + 4;
      for (index_t p = 0; p < count; p += step)
        for (index_t i = 4 * line; i < stop; i += 2)
          if (stop - i > 1)
            block(p, i, counter<2>{});
          else
            block(p, i, counter<1>{});
    }
    finish(waiting.rows);
  };
  // A piece worth handing to another thread is about two million multiply-adds.
  workers.parallel_for(space.size(), 1 + (index_t(1) << 21) / (chunk * 4 * panel), run);
}

} // namespace detail
} // namespace cpu
} // namespace tenon
#endif

#endif
