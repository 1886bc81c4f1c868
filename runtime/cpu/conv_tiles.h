// Defines conv_bytes_by_tiles: conv_bytes (cpu/conv_bytes.h) with tile registers, for patches that
// are whole tiles wide.
//
// A block of 32 outputs times 32 filters has four tiles of sums; two more hold the patches and two
// the weights of 64 bytes of depth. Patches are the bytes as they are, so that those of a 1x1
// convolution over neighbouring pixels need not be copied.
#ifndef TENON_RUNTIME_CPU_CONV_TILES_H
#define TENON_RUNTIME_CPU_CONV_TILES_H

#include "common/tile_products.h"
#include "cpu/conv_patches.h"
#include "cpu/held_inputs.h"

#if TENON_TILE_PRODUCTS
namespace tenon {
namespace cpu {
namespace detail {

inline constexpr index_t tile_rows = 16, tile_bytes = 64;

template <class Cfg>
inline constexpr bool fits_tiles =
    byte_runs<Cfg>::words * 4 % tile_bytes == 0 && decltype(Cfg::filters)::value % tile_rows == 0 &&
    decltype(Cfg::out_h)::is_fixed &&decltype(Cfg::out_w)::is_fixed;
/// Whether there are enough outputs to fill rows of tiles.
template <class Cfg> TENON_FN bool fills_tiles(const Cfg &cfg) {
  return index_t(cfg.out_h) * index_t(cfg.out_w) >= tile_rows;
}

/// Whether output p of an image reads the pixel that lies p pixels behind the first.
template <class Cfg, class X> constexpr bool patches_in_place() {
  using R = byte_runs<Cfg>;
  using Channel = bare<decltype(X{}.strides.template get<1>())>;
  using Row = bare<decltype(X{}.strides.template get<2>())>;
  using Column = bare<decltype(X{}.strides.template get<3>())>;
  if constexpr (R::kernel_h == 1 && R::kernel_w == 1 && Row::is_fixed && Column::is_fixed &&
                decltype(Cfg::out_w)::is_fixed && decltype(Cfg::stride_h)::is_fixed)
    return is_same<Channel, fixed<1>> && decltype(Cfg::stride_h)::value == 1 &&
           decltype(Cfg::stride_w)::value == 1 && decltype(Cfg::pad_top)::value == 0 &&
           decltype(Cfg::pad_left)::value == 0 &&
           Row::value == Column::value * decltype(Cfg::out_w)::value;
  else
    return false;
}

/// Sums of 32 patches, `stride` bytes apart, with NV panels of 16 filters, in rows of 32.
template <class T, int NV, index_t Words>
TENON_TILE void tile_sums(const void *patches, index_t stride, const int8_t *panel,
                          int32_t *results) {
  const auto *x = static_cast<const uint8_t *>(patches);
  tile_zero<0>();
  tile_zero<2>();
  if constexpr (NV > 1) {
    tile_zero<1>();
    tile_zero<3>();
  }
  for (index_t k = 0; k < Words;
       k += tile_bytes / 4, x += tile_bytes, panel += tile_rows * tile_bytes) {
    tile_load<6>(panel, tile_bytes);
    tile_load<4>(x, stride);
    tile_multiply_add<T, 0, 4, 6>();
    tile_load<5>(x + tile_rows * stride, stride);
    tile_multiply_add<T, 2, 5, 6>();
    if constexpr (NV > 1) {
      tile_load<7>(panel + Words * tile_bytes, tile_bytes);
      tile_multiply_add<T, 1, 4, 7>();
      tile_multiply_add<T, 3, 5, 7>();
    }
  }
  constexpr index_t row = 4 * 2 * tile_rows;
  tile_store<0>(results, row);
  tile_store<2>(results + 2 * tile_rows * tile_rows, row);
  if constexpr (NV > 1) {
    tile_store<1>(results + tile_rows, row);
    tile_store<3>(results + 2 * tile_rows * tile_rows + tile_rows, row);
  }
}

template <class Cfg, class X, class Outs, class Ins, class Body>
void conv_bytes_by_tiles(const Cfg &cfg, const X &x, const int8_t *w, const int32_t *sums,
                         int32_t zero, const Outs &outs, const Ins &ins, const Body &body,
                         pool &workers) {
  using T = bare<typename X::element>;
  using R = byte_runs<Cfg>;
  using L = native_lanes;
  constexpr int nr = Cfg::nr, width = L::width;
  static_assert(width == tile_rows && nr % width == 0, "a row of sums is a vector");
  constexpr index_t filters = decltype(cfg.filters)::value, blocks = ceil_div(filters, nr),
                    panel = 4 * nr * R::words, step = 2 * tile_rows, bytes = 4 * R::words;
  // As many patches as leave half of a second-level cache to the weights.
  constexpr index_t most = (index_t(256) << 10) / (bytes * step),
                    tiles = most < 1   ? 1
                            : most > 4 ? 4
                                       : most,
                    chunk = tiles * step;
  constexpr bool in_place = patches_in_place<Cfg, X>();
  const index_t pixels = index_t(cfg.out_h) * index_t(cfg.out_w);
  odometer<3> space;
  space.extents[0] = cfg.batch;
  space.extents[1] = ceil_div(pixels, chunk);
  space.extents[2] = blocks;

  const auto run = [&](index_t begin, index_t end) {
    const subnormals_as_zero guard;
    const tile_registers registers;
    const Outs to = outs; // what a store of bytes cannot change
    alignas(64) uint32_t room[chunk * R::words];
    alignas(64) int32_t results[step * step];
    index_t places[chunk][2];
    odometer<3> it = space;
    it.seek(begin);
    const void *patches = room;
    index_t stride = bytes;
    for (index_t u = begin; u < end; ++u, it.step()) {
      const index_t n = it.at[0], first = it.at[1] * chunk, block = it.at[2];
      const index_t count = pixels - first < chunk ? pixels - first : chunk;
      if (u == begin || block == 0) {
        make_places(cfg, first, count, places);
        // Whole tiles are read, so the last pixels are copied all the same.
        if (in_place && count % step == 0) {
          const index_t at[4] = {n, 0, places[0][0], places[0][1]};
          patches = x.data + x.offset(at);
          stride = x.strides.template get<3>();
        } else {
          patches = room;
          stride = bytes;
          for (index_t p = 0; p < count; ++p)
            gather_window(cfg, x, n, places[p], zero,
                          reinterpret_cast<uint8_t *>(room + p * R::words));
        }
      }
      const auto tile = [&](index_t p, index_t v, auto vectors) TENON_LAMBDA {
        constexpr int nv = decltype(vectors)::value;
        tile_sums<T, nv, R::words>(static_cast<const uint8_t *>(patches) + p * stride, stride,
                                   w + block * panel + v * R::words * 4, results);
        const index_t k = block * nr + v;
        unroll<nv>([&](auto i) TENON_LAMBDA {
          index_t at[4] = {n, k + int(i) * width, 0, 0};
          const i32<L> start = load<L>(sums + at[1]) * -zero;
          const auto held = hold_inputs<L, 1>(ins, at, fixed<width>{});
          for (index_t r = 0; r < step && p + r < count; ++r) {
            at[2] = places[p + r][0];
            at[3] = places[p + r][1];
            apply_body<L, 1>(body, to, held, at, fixed<width>{},
                             load<L>(results + r * step + int(i) * width) + start);
          }
        });
      };
      const index_t left = filters - block * nr < nr ? filters - block * nr : nr;
      for (index_t v = 0; v < left; v += 2 * width)
        for (index_t p = 0; p < count; p += step)
          if (left - v > width)
            tile(p, v, counter<2>{});
          else
            tile(p, v, counter<1>{});
    }
  };
  // A piece worth handing to another thread is about two million multiply-adds.
  workers.parallel_for(space.size(), 1 + (index_t(1) << 21) / (chunk * panel), run);
}

} // namespace detail
} // namespace cpu
} // namespace tenon
#endif

#endif
