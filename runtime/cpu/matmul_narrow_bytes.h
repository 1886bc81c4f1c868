// Defines matmul_narrow_bytes: batched product with constant weights of 2, 4 or 8 bits, of rows
// that are rounded to 8 bits.
//
//   y[b0, b1, m, n] = body(sum over k of a'[b0, b1, m, k] * (w[n, k] - zero) * scale, ins...)
//
// Scale and zero point belong to `block` elements along k of each column, and a' is `a` with each
// such block of a row as signed bytes times a scale: the largest magnitude is 127, ties go to even.
// Sums of a block are exact in 32 bits (common/narrow_products.h); scaled, they are summed in f32.
//
// Lanes run along n. A panel, the weights of as many columns as a vector has lanes, is read as it
// lies, one vector of bytes giving 8 / bits vectors of weights, for `mr` rows at a time. So one row
// is bound by the bytes of w, and many by the products. Panels are shared out among threads, each
// of which meets `rows_at_once` rows while it is in the caches.
//
// Config (derive from matmul_narrow_bytes_defaults): batch0, batch1, m (`fixed` or `dyn`), n, k,
//   block (`fixed`, block a multiple of 4 * 8 / bits, k of block); mr: schedule
// a: view over (b0, b1, m, k); w: [ceil(n / lanes)][k / run][lanes][run], of run = 4 * 8 / bits
// elements; scale, zero: [ceil(n / lanes)][k / block][lanes], zero no_zero_points when all are 0;
// rounded: narrow_rows_words(k, block) * rows_at_once words, 64-byte aligned; outs, ins: packs of
// views over (b0, b1, m, n).
#ifndef TENON_RUNTIME_CPU_MATMUL_NARROW_BYTES_H
#define TENON_RUNTIME_CPU_MATMUL_NARROW_BYTES_H

#include "common/narrow_products.h"
#include "common/scalar_math.h"
#include "cpu/epilogue.h"
#include "cpu/odometer.h"
#include "cpu/pool.h"
#include "cpu/prefetch.h"
#include "cpu/subnormals.h"
#include "cpu/sum_lanes.h"
#include "cpu/unroll.h"
#include "cpu/weight_blocks.h"

namespace tenon {
namespace cpu {

struct matmul_narrow_bytes_defaults {
  static constexpr fixed<1> batch0{}, batch1{};
  static constexpr int rows_at_once = 64;
};

/// Words that a rounded row takes: its elements, 16 bits each where machines multiply no bytes, and
/// two words for each block. The last ones keep rows from lying on the same lines of a cache.
TENON_FN constexpr index_t narrow_rows_words(index_t k, index_t block) {
  return k / 2 + k / block * 2 + 16;
}

namespace detail {

/// What the parts of the kernel know of a product by How.
template <class Cfg, class W, class Zero, class How_> struct narrow_shape {
  using How = How_;
  using element = W;
  using L = native_lanes;
  static constexpr index_t k = decltype(Cfg::k)::value, block = decltype(Cfg::block)::value;
  static constexpr index_t blocks = k / block;
  static constexpr int per_byte = 8 / stored_bits<W>, run = 4 * per_byte;
  /// Vectors of stored bytes in a block of a panel, and words of x beside them.
  static constexpr index_t vectors = block / run, words = vectors * per_byte * How::halves;
  static constexpr index_t panel_bytes = k / per_byte * L::width;
  /// Of a rounded row: elements, scale and sum of each block.
  static constexpr index_t scales = blocks * words, sums = scales + blocks,
                           row = narrow_rows_words(k, block);
  static constexpr int excess = How::template excess<W>();
  static constexpr bool has_zero_points = !is_same<Zero, no_zero_points>;
  static_assert(block % run == 0 && k % block == 0, "whole vectors");
};

template <class T> TENON_FN T word_as(const uint32_t *word) {
  return tenon::detail::bitcast<T>(*word);
}

/// Bytes of a run in the order in which `field` gives the weights: byte j of word p is element j *
/// PerByte + p.
template <int PerByte> TENON_FN void order_run(const int8_t *from, uint32_t *to) {
  unroll<PerByte>([&](auto p) TENON_LAMBDA {
    uint32_t word = 0;
    unroll<4>([&](auto j) TENON_LAMBDA {
      word |= uint32_t(uint8_t(from[int(j) * PerByte + int(p)])) << (8 * int(j));
    });
    to[int(p)] = word;
  });
}

/// One block of a row: elements from k0 on. Its sum is that of the bytes, as a float where columns
/// have zero points of their own, else less what `excess` adds to the products.
template <class Shape, class X>
TENON_FN void round_block(const X &a, index_t *at, index_t k0, uint32_t *row, index_t b) {
  using L = typename Shape::L;
  using V = f32<L>;
  using U = u32<L>;
  constexpr index_t block = Shape::block;
  const auto wide = [&](index_t i) TENON_LAMBDA {
    at[3] = k0 + i;
    return tenon::detail::bitcast<U>(V(load_at<L, 3>(a, at, fixed<L::width>{})));
  };
  // Magnitudes are ordered as their bits are; NaN, the largest, makes the scale NaN.
  i32<L> most = i32<L>{};
  for (index_t i = 0; i < block; i += L::width)
    most = max<L>(most, tenon::detail::bitcast<i32<L>>(wide(i) & 0x7fffffffu));
  const float largest = tenon::detail::bitcast<float>(
      fold_lanes<int32_t>(most, [](auto x, auto y) TENON_LAMBDA { return x > y ? x : y; }));
  // Below, the scale would be subnormal.
  const V by = broadcast<L>(largest >= 127 * 1.17549435e-38f ? 127 / largest : 0.0f);
  // Adding 1.5 * 2^23 rounds to an integer, which the lowest bits are then.
  constexpr float rounds = 12582912.0f;
  alignas(64) int8_t bytes[block];
  U sum = U{};
  for (index_t i = 0; i < block; i += L::width) {
    const U bits = tenon::detail::bitcast<U>(V(tenon::detail::bitcast<V>(wide(i)) * by + rounds)) -
                   tenon::detail::bitcast<uint32_t>(rounds);
    sum = sum + bits;
    store<L, int8_t>(bytes + i, convert<i8<L>>(tenon::detail::bitcast<i32<L>>(bits)));
  }
  const auto all = int32_t(sum_lanes<uint32_t>(sum));
  row[Shape::scales + b] = tenon::detail::bitcast<uint32_t>(largest / 127);
  row[Shape::sums + b] = Shape::has_zero_points ? tenon::detail::bitcast<uint32_t>(float(all))
                                                : uint32_t(-Shape::excess) * uint32_t(all);
  uint32_t *to = row + b * Shape::words;
  constexpr int per_byte = Shape::per_byte, halves = Shape::How::halves;
  for (index_t i = 0; i < block; i += Shape::run, to += per_byte * halves) {
    uint32_t words[per_byte];
    order_run<per_byte>(bytes + i, words);
    unroll<per_byte>([&](auto p) TENON_LAMBDA {
      if constexpr (halves == 1)
        to[int(p)] = words[int(p)];
      else
        unroll<halves>([&](auto half) TENON_LAMBDA {
          to[int(p) * halves + int(half)] =
              uint32_t(two_products::from_bytes<scalar_lanes, int8_t, decltype(half)::value>(
                  int32_t(words[int(p)]), 0));
        });
    });
  }
}

/// sums[r][lane]: Rows rounded rows times a panel.
template <class Shape, int Rows, class Scale, class Zero>
TENON_TILE void narrow_bytes_tile(const uint32_t *x, const unsigned char *w, const Scale *scale,
                                  Zero zero, float *sums) {
  using How = typename Shape::How;
  using L = typename Shape::L;
  using V = f32<L>;
  constexpr int bytes = 4 * L::width;
  // Weights come from memory faster where they are asked for further ahead than the processor does.
  constexpr index_t ahead = ceil_div(8192, Shape::vectors * bytes); // blocks
  V total[Rows] = {};
  const uint32_t *words = x;
  for (index_t b = 0; b < Shape::blocks; ++b, words += Shape::words) {
    i32<L> acc[Rows] = {};
    if constexpr (!Shape::has_zero_points && Shape::excess != 0)
      unroll<Rows>([&](auto r) TENON_LAMBDA {
        acc[r] = broadcast<L>(word_as<int32_t>(x + int(r) * Shape::row + Shape::sums + b));
      });
    const auto products = [&](i32<L>(&to)[Rows], index_t vector) TENON_LAMBDA {
      i32<L> stored;
      prefetch(w + (ahead * Shape::vectors + vector) * bytes);
      memcpy(&stored, w + vector * bytes, sizeof(stored));
      unroll<Shape::per_byte>([&](auto p) TENON_LAMBDA {
        const i32<L> four =
            How::template field<L, typename Shape::element, decltype(p)::value>(stored);
        unroll<How::halves>([&](auto half) TENON_LAMBDA {
          const i32<L> weights = How::template weights<L, decltype(half)::value>(four);
          const uint32_t *at =
              words + (vector * Shape::per_byte + int(p)) * How::halves + int(half);
          unroll<Rows>([&](auto r) TENON_LAMBDA {
            to[r] = How::template multiply_add<L>(to[r], weights, at + int(r) * Shape::row);
          });
        });
      });
    };
    if constexpr (How::most == 0) {
      if constexpr (Shape::vectors <= 8)
        unroll<int(Shape::vectors)>([&](auto v) TENON_LAMBDA { products(acc, int(v)); });
      else
        for (index_t v = 0; v < Shape::vectors; ++v)
          products(acc, v);
    } else {
      constexpr index_t most = How::most / Shape::per_byte;
      for (index_t first = 0; first < Shape::vectors; first += most) {
        i32<L> part[Rows] = {};
        const index_t last = Shape::vectors - first < most ? Shape::vectors : first + most;
        for (index_t v = first; v < last; ++v)
          products(part, v);
        unroll<Rows>([&](auto r)
                         TENON_LAMBDA { acc[r] = acc[r] + How::template wide<L>(part[r]); });
      }
    }
    w += Shape::vectors * bytes;
    prefetch(scale + (ahead + b) * L::width);
    const V by = load<L>(scale + b * L::width);
    V less = V{};
    if constexpr (Shape::has_zero_points)
      less = load<L>(zero + b * L::width) + float(Shape::excess);
    unroll<Rows>([&](auto r) TENON_LAMBDA {
      const uint32_t *row = x + int(r) * Shape::row;
      V sum = convert<V>(acc[r]);
      if constexpr (Shape::has_zero_points)
        sum = mul_add(-less, broadcast<L>(word_as<float>(row + Shape::sums + b)), sum);
      const V both = by * broadcast<L>(word_as<float>(row + Shape::scales + b));
      total[r] = mul_add(sum, both, total[r]);
    });
  }
  unroll<Rows>([&](auto r) TENON_LAMBDA { store<L, float>(sums + int(r) * L::width, total[r]); });
}

/// `rows` rows times a panel, by tiles of Rows and then of half as many.
template <class Shape, int Rows, class Scale, class Zero>
TENON_FN void narrow_bytes_rows(const uint32_t *x, index_t rows, const unsigned char *w,
                                const Scale *scale, Zero zero, float *sums) {
  index_t r = 0;
  for (; r + Rows <= rows; r += Rows)
    narrow_bytes_tile<Shape, Rows>(x + r * Shape::row, w, scale, zero, sums + r * Shape::L::width);
  if constexpr (Rows > 1)
    narrow_bytes_rows<Shape, Rows / 2>(x + r * Shape::row, rows - r, w, scale, zero,
                                       sums + r * Shape::L::width);
}

template <class How, class Cfg, class X, class W, class Scale, class Zero, class Outs, class Ins,
          class Body>
void matmul_narrow_bytes_by(const Cfg &cfg, const X &a, W w, const Scale *scale, Zero zero,
                            uint32_t *rounded, const Outs &outs, const Ins &ins, const Body &body,
                            pool &workers) {
  using Shape = narrow_shape<Cfg, typename weight_element<W>::type, Zero, How>;
  using L = typename Shape::L;
  constexpr index_t n = decltype(Cfg::n)::value, row = Shape::row, k = Shape::k;
  odometer<3> space;
  space.extents[0] = cfg.batch0;
  space.extents[1] = cfg.batch1;
  space.extents[2] = cfg.m;
  const index_t all = space.size();
  for (index_t row0 = 0; row0 < all; row0 += Cfg::rows_at_once) {
    const index_t rows = all - row0 < Cfg::rows_at_once ? all - row0 : Cfg::rows_at_once;
    workers.parallel_for(rows, 1 + (index_t(1) << 14) / k, [&](index_t begin, index_t end) {
      const subnormals_as_zero guard;
      odometer<3> it = space;
      it.seek(row0 + begin);
      for (index_t r = begin; r < end; ++r, it.step()) {
        index_t at[4] = {it.at[0], it.at[1], it.at[2], 0};
        for (index_t b = 0; b < Shape::blocks; ++b)
          round_block<Shape>(a, at, b * Shape::block, rounded + r * row, b);
      }
    });
    workers.parallel_for(ceil_div(n, L::width), 1 + (index_t(1) << 19) / (rows * k * L::width),
                         [&](index_t begin, index_t end) {
                           const subnormals_as_zero guard;
                           alignas(64) float sums[Cfg::rows_at_once * L::width];
                           for (index_t panel = begin; panel < end; ++panel) {
                             const index_t first = panel * L::width,
                                           factors = panel * Shape::blocks * L::width;
                             narrow_bytes_rows<Shape, Cfg::mr>(
                                 rounded, rows, first_byte(w) + panel * Shape::panel_bytes,
                                 scale + factors, zero_points_from(zero, factors), sums);
                             odometer<3> it = space;
                             it.seek(row0);
                             for (index_t r = 0; r < rows; ++r, it.step()) {
                               const index_t at[4] = {it.at[0], it.at[1], it.at[2], first};
                               const auto v = load<L, float>(sums + r * L::width);
                               if (n - first >= L::width)
                                 apply_body<L, 3>(body, outs, ins, at, fixed<L::width>{}, v);
                               else
                                 apply_body<L, 3>(body, outs, ins, at, n - first, v);
                             }
                           }
                         });
  }
}

} // namespace detail

template <class Cfg, class X, class W, class Scale, class Zero, class Outs, class Ins, class Body>
void matmul_narrow_bytes(const Cfg &cfg, const X &a, W w, const Scale *scale, Zero zero,
                         uint32_t *rounded, const Outs &outs, const Ins &ins, const Body &body,
                         pool &workers) {
  const auto by = [&](auto how) {
    detail::matmul_narrow_bytes_by<decltype(how)>(cfg, a, w, scale, zero, rounded, outs, ins, body,
                                                  workers);
  };
#if TENON_FOUR_PRODUCTS
  if (has_four_products)
    return by(narrow_fours{});
#endif
#if TENON_BYTE_PAIRS
  constexpr int bits = detail::stored_bits<typename detail::weight_element<W>::type>;
  if constexpr (bits < 8)
    return by(narrow_bytes<bits>{});
#endif
  by(narrow_pairs{});
}

} // namespace cpu
} // namespace tenon

#endif
