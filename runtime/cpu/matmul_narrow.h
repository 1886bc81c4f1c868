// Defines matmul_narrow: batched product with constant weights that stay integers of 2, 4 or 8
// bits.
//
//   y[b0, b1, m, n] = body(sum over k of a[b0, b1, m, k] * (w[n, k] - zero) * scale, ins...)
//
// Scale and zero point belong to `block` elements along k of each column. Lanes run along k: rows
// of w are read as they lie, one vector of bytes giving 8 / bits vectors of floats, and a tile of
// `mr` rows by `nc` columns keeps their sums until the horizontal ones at the end. So one row (m =
// 1) is bound by the bytes of w. Rows of `a` are copied as the lanes meet them, `rows_at_once` at a
// time, for which `copies` has room: rows_at_once * k floats.
//
// Config (derive from matmul_narrow_defaults): batch0, batch1, m (`fixed` or `dyn`), n, k, block
//   (`fixed`, block a multiple of lanes * 8 / bits, k of block); mr, nc: schedule; lanes
// a: view over (b0, b1, m, k); w: [n][k]; scale, zero: [n][k / block], zero no_zero_points when all
// are 0; outs, ins: packs of views over (b0, b1, m, n).
#ifndef TENON_RUNTIME_CPU_MATMUL_NARROW_H
#define TENON_RUNTIME_CPU_MATMUL_NARROW_H

#include "common/mul_add.h"
#include "common/packed.h"
#include "cpu/epilogue.h"
#include "cpu/odometer.h"
#include "cpu/pool.h"
#include "cpu/subnormals.h"
#include "cpu/unroll.h"
#include "cpu/weight_blocks.h"

namespace tenon {
namespace cpu {

struct matmul_narrow_defaults {
  static constexpr fixed<1> batch0{}, batch1{};
  static constexpr int rows_at_once = 64;
  using lanes = native_lanes;
};

namespace detail {

/// Elements of W in vectors of bytes: element p of byte j stands in lane j of vector p.
template <class L, class W> struct narrow_weights {
  static constexpr int bits = packed_bits<W> > 0 ? packed_bits<W> : 8, per_byte = 8 / bits;
  static constexpr int run = L::width * per_byte;
  /// What `floats` gives is so much larger than the elements.
  static constexpr int excess = bits < 8 && is_signed<compute_t<W>> ? 1 << (bits - 1) : 0;

  i32<L> words;
  TENON_FN explicit narrow_weights(const unsigned char *p) {
    if constexpr (bits < 8)
      words = convert<i32<L>>(load<L>(p));
    else
      words = convert<i32<L>>(load<L>(reinterpret_cast<const W *>(p)));
    if constexpr (excess != 0) // flips the sign bits
      words = words ^ (bits == 4 ? 0x88 : 0xaa);
  }
  template <int P> TENON_FN f32<L> floats() const {
    if constexpr (bits == 8)
      return convert<f32<L>>(words);
    else
      return convert<f32<L>>((words >> (P * bits)) & ((1 << bits) - 1));
  }
};

template <class L> TENON_FN float sum_of_lanes(f32<L> v) {
  if constexpr (L::width == 1)
    return v;
  else {
    float lanes[L::width];
    store<L, float>(lanes, v);
    for (int half = L::width / 2; half > 0; half /= 2)
      for (int i = 0; i < half; ++i)
        lanes[i] += lanes[i + half];
    return lanes[0];
  }
}

template <class T> TENON_FN float zero_point_at(const T *zero, index_t i) {
  return load_element(zero + i);
}
TENON_FN float zero_point_at(no_zero_points, index_t) { return 0; }

/// sums[r][c] of Rows rows of x and Columns rows of w.
template <class Cfg, class W, int Rows, int Columns, class Scale, class Zero>
TENON_TILE void narrow_tile(const float *x, const unsigned char *w, const Scale *scale, Zero zero,
                            float *sums, index_t pitch) {
  using L = typename Cfg::lanes;
  using V = f32<L>;
  using weights = narrow_weights<L, W>;
  constexpr index_t k = decltype(Cfg::k)::value, block = decltype(Cfg::block)::value;
  constexpr index_t blocks = k / block, row_bytes = k / weights::per_byte;
  constexpr bool shifted = weights::excess != 0 || !is_same<Zero, no_zero_points>;
  static_assert(block % weights::run == 0 && k % block == 0, "whole vectors");
  V total[Rows][Columns] = {};
  for (index_t b = 0; b < blocks; ++b) {
    V part[Rows][Columns] = {};
    V less[Columns];
    unroll<Columns>([&](auto c) TENON_LAMBDA {
      less[c] = broadcast<L>(float(weights::excess) + zero_point_at(zero, c * blocks + b));
    });
    for (index_t i = b * block; i < (b + 1) * block; i += weights::run) {
      V values[Rows][weights::per_byte];
      unroll<Rows>([&](auto r) TENON_LAMBDA {
        unroll<weights::per_byte>([&](auto p) TENON_LAMBDA {
          values[r][p] = load<L>(x + int(r) * k + i + int(p) * L::width);
        });
      });
      unroll<Columns>([&](auto c) TENON_LAMBDA {
        const weights run(w + int(c) * row_bytes + i / weights::per_byte);
        unroll<weights::per_byte>([&](auto p) TENON_LAMBDA {
          V v = run.template floats<decltype(p)::value>();
          if constexpr (shifted)
            v = v - less[c];
          unroll<Rows>([&](auto r)
                           TENON_LAMBDA { part[r][c] = mul_add(values[r][p], v, part[r][c]); });
        });
      });
    }
    unroll<Columns>([&](auto c) TENON_LAMBDA {
      const V by = broadcast<L>(load_element(scale + int(c) * blocks + b));
      unroll<Rows>([&](auto r)
                       TENON_LAMBDA { total[r][c] = mul_add(part[r][c], by, total[r][c]); });
    });
  }
  unroll<Rows>([&](auto r) TENON_LAMBDA {
    unroll<Columns>(
        [&](auto c) TENON_LAMBDA { sums[int(r) * pitch + int(c)] = sum_of_lanes<L>(total[r][c]); });
  });
}

/// A row of `a` in the order in which lanes meet its elements.
template <class L, int PerByte, class X>
TENON_FN void copy_row(const X &a, index_t *at, index_t k, float *to) {
  for (index_t run = 0; run < k; run += L::width * PerByte, to += L::width * PerByte)
    for (int j = 0; j < L::width; ++j)
      for (int p = 0; p < PerByte; ++p) {
        at[3] = run + j * PerByte + p;
        to[p * L::width + j] = load_at<scalar_lanes, 3>(a, at, fixed<1>{});
      }
}

/// Columns [begin, end) of `rows` rows by tiles of Rows.
template <class Cfg, class W, int Rows, class Scale, class Zero>
TENON_FN void narrow_rows(const float *x, index_t rows, const unsigned char *w, const Scale *scale,
                          Zero zero, index_t begin, index_t end, float *sums, index_t pitch) {
  constexpr index_t k = decltype(Cfg::k)::value, blocks = k / decltype(Cfg::block)::value;
  constexpr index_t row_bytes = k / narrow_weights<typename Cfg::lanes, W>::per_byte;
  index_t r = 0;
  for (; r + Rows <= rows; r += Rows) {
    index_t n = begin;
    for (; n + Cfg::nc <= end; n += Cfg::nc)
      narrow_tile<Cfg, W, Rows, Cfg::nc>(x + r * k, w + n * row_bytes, scale + n * blocks,
                                         zero_points_from(zero, n * blocks),
                                         sums + r * pitch + n - begin, pitch);
    for (; n < end; ++n)
      narrow_tile<Cfg, W, Rows, 1>(x + r * k, w + n * row_bytes, scale + n * blocks,
                                   zero_points_from(zero, n * blocks), sums + r * pitch + n - begin,
                                   pitch);
  }
  if constexpr (Rows > 1)
    narrow_rows<Cfg, W, 1>(x + r * k, rows - r, w, scale, zero, begin, end, sums + r * pitch,
                           pitch);
}

} // namespace detail

template <class Cfg, class X, class W, class Scale, class Zero, class Outs, class Ins, class Body>
void matmul_narrow(const Cfg &cfg, const X &a, W w, const Scale *scale, Zero zero, float *copies,
                   const Outs &outs, const Ins &ins, const Body &body, pool &workers) {
  using namespace detail;
  using L = typename Cfg::lanes;
  using element = typename weight_element<W>::type;
  constexpr index_t n = decltype(Cfg::n)::value, k = decltype(Cfg::k)::value;
  constexpr int columns = 64, tile_rows = Cfg::mr;
  odometer<3> space;
  space.extents[0] = cfg.batch0;
  space.extents[1] = cfg.batch1;
  space.extents[2] = cfg.m;
  const index_t all = space.size();
  for (index_t row0 = 0; row0 < all; row0 += Cfg::rows_at_once) {
    const index_t rows = all - row0 < Cfg::rows_at_once ? all - row0 : Cfg::rows_at_once;
    odometer<3> it = space;
    it.seek(row0);
    for (index_t r = 0; r < rows; ++r, it.step()) {
      index_t at[4] = {it.at[0], it.at[1], it.at[2], 0};
      copy_row<L, narrow_weights<L, element>::per_byte>(a, at, k, copies + r * k);
    }
    workers.parallel_for(
        ceil_div(n, columns), 1 + (index_t(1) << 16) / (rows * k * columns + 1),
        [&](index_t begin, index_t end) {
          const subnormals_as_zero guard;
          alignas(64) float sums[tile_rows * columns];
          for (index_t u = begin; u < end; ++u) {
            const index_t first = u * columns, last = n - first < columns ? n : first + columns;
            odometer<3> row = space;
            row.seek(row0);
            for (index_t r0 = 0; r0 < rows; r0 += tile_rows) {
              const index_t count = rows - r0 < tile_rows ? rows - r0 : tile_rows;
              narrow_rows<Cfg, element, tile_rows>(copies + r0 * k, count, first_byte(w), scale,
                                                   zero, first, last, sums, columns);
              for (index_t r = 0; r < count; ++r, row.step())
                for (index_t j = 0; j < last - first; j += L::width) {
                  const index_t at[4] = {row.at[0], row.at[1], row.at[2], first + j};
                  const auto v = load<L>(sums + r * columns + j);
                  if (last - first - j >= L::width)
                    apply_body<L, 3>(body, outs, ins, at, fixed<L::width>{}, v);
                  else
                    apply_body<L, 3>(body, outs, ins, at, last - first - j, v);
                }
            }
          }
        });
  }
}

} // namespace cpu
} // namespace tenon

#endif
