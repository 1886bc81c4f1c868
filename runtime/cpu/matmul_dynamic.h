// Defines matmul_dynamic: batched product of two operands known only at run time (attention scores,
// any MatMul of activations), in any layout.
//
//   y[b0, b1, m, n] = body(sum over k of a[b0, b1, m, k] * b[b0, b1, k, n], ins...)
//
// Blocks of `depth` rows of b by nr columns, and of mr rows of a, are copied to the stack in the
// order the register tile reads them; so transposed and strided operands cost about the same. b is
// copied once per column block when k <= depth, else again for each group of eight tiles; rows of a
// once for each `panels` column blocks. Sums stay in registers within a block.
//
// Config (derive from matmul_dynamic_defaults): batch0, batch1, m, n, k (`fixed` or `dyn`);
//   mr, nr     schedule: register tile as in conv.h, e.g. 14x32 with AVX-512
//   depth      schedule: rows of b copied at once, 256 by default
//   panels     column blocks that share the copies of a, 1 by default; as many as leave each thread
//              some. (mr + panels * nr) * depth + 8 * panels * mr * nr elements of stack
//   lanes, accumulator
//   pairs      the operands are 8-bit integers less zero_a and zero_b, the sums int32_t: copies
//              hold two elements in each word, whose products are added at once
// a: view over (b0, b1, m, k); b: view over (b0, b1, k, n); outs, ins: views over (b0, b1, m, n).
#ifndef TENON_RUNTIME_CPU_MATMUL_DYNAMIC_H
#define TENON_RUNTIME_CPU_MATMUL_DYNAMIC_H

#include "common/byte_products.h"
#include "common/mul_add.h"
#include "cpu/epilogue.h"
#include "cpu/odometer.h"
#include "cpu/pool.h"
#include "cpu/subnormals.h"
#include "cpu/transpose_lanes.h"
#include "cpu/unroll.h"

namespace tenon {
namespace cpu {

struct matmul_dynamic_defaults {
  static constexpr fixed<1> batch0{}, batch1{};
  static constexpr int depth = 256, panels = 1, zero_a = 0, zero_b = 0;
  static constexpr bool pairs = false;
  using lanes = native_lanes;
};

namespace detail {

/// sums[MR][nr] = (onto ? sums : 0) + a[k][MR] * b[k][nr] over `k` rows, as they are packed.
template <class Cfg>
TENON_TILE void matmul_tile(const typename Cfg::accumulator *a, const typename Cfg::accumulator *b,
                            index_t k, bool onto, typename Cfg::accumulator *sums) {
  using L = typename Cfg::lanes;
  using A = typename Cfg::accumulator;
  using V = typename L::template of<A>;
  constexpr int mr = Cfg::mr, nv = Cfg::nr / L::width;
  V acc[mr][nv];
  unroll<mr>([&](auto r)
                 TENON_LAMBDA { unroll<nv>([&](auto v) TENON_LAMBDA { acc[r][v] = V{}; }); });
  if (onto)
    unroll<mr>([&](auto r) TENON_LAMBDA {
      unroll<nv>([&](auto v) TENON_LAMBDA {
        acc[r][v] = load<L>(sums + int(r) * Cfg::nr + int(v) * L::width);
      });
    });
  constexpr index_t step = Cfg::pairs ? 2 : 1;
  for (index_t i = 0; i < k; i += step, a += mr, b += Cfg::nr) {
    V columns[nv];
    unroll<nv>([&](auto v) TENON_LAMBDA { columns[v] = load<L>(b + int(v) * L::width); });
    unroll<mr>([&](auto r) TENON_LAMBDA {
      const V x = broadcast<L, A>(a[int(r)]);
      unroll<nv>([&](auto v) TENON_LAMBDA {
        if constexpr (Cfg::pairs)
          acc[r][v] = acc[r][v] + multiply_pairs<L>(x, columns[v]);
        else
          acc[r][v] = mul_add(x, columns[v], acc[r][v]);
      });
    });
  }
  unroll<mr>([&](auto r) TENON_LAMBDA {
    unroll<nv>([&](auto v) TENON_LAMBDA {
      store<L, A>(sums + int(r) * Cfg::nr + int(v) * L::width, acc[r][v]);
    });
  });
}

/// Whether blocks are turned in registers: whole vectors of them, or a part of one.
template <class L, int Block>
inline constexpr bool turns = L::width > 1 && (Block % L::width == 0 || Block < L::width);

/// to[i][j] = from[j][i], rows of `from` `pitch` apart, for a vector of i and j below Block; those
/// from `filled` on are zeros. A part of a vector is stored as a whole one, before what follows it.
template <class L, int Block, class T, class A>
TENON_FN void pack_turned(const T *from, index_t pitch, index_t filled, A *to) {
  using V = typename L::template of<A>;
  for (index_t j0 = 0; j0 < Block; j0 += L::width) {
    V rows[L::width];
    unroll<L::width>([&](auto j) TENON_LAMBDA {
      rows[j] = j0 + int(j) < filled ? convert<V>(load<L>(from + (j0 + int(j)) * pitch)) : V{};
    });
    transpose_lanes<L::width>(rows);
    unroll<L::width>([&](auto i) TENON_LAMBDA { store<L, A>(to + int(i) * Block + j0, rows[i]); });
  }
}

/// to[k][Block] = from rows (dimension `Fast` of the view runs along the block), zeros beyond
/// `filled`.
template <class L, int Block, int Fast, class View, class A>
TENON_FN void pack_block(const View &from, const index_t *at, index_t k, index_t filled, A *to) {
  const auto fast = from.strides.template get<Fast>();
  const index_t slow = from.strides.template get<5 - Fast>();
  const auto *p = from.data + from.offset(at);
  if constexpr (is_same<bare<decltype(fast)>, fixed<1>>) {
    for (index_t i = 0; i < k; ++i, p += slow, to += Block) {
      if constexpr (Block % L::width == 0) {
        for (index_t j = 0; j < Block; j += L::width) {
          const index_t left = j < filled ? filled - j : 0;
          store<L, A>(to + j,
                      convert<typename L::template of<A>>(
                          left >= L::width ? load<L>(p + j) : load_partial<L>(p + j, left)));
        }
      } else {
        for (index_t j = 0; j < Block; ++j)
          to[j] = j < filled ? A(load_element(p + j)) : A(0);
      }
    }
  } else {
    index_t i = 0;
    if constexpr (is_same<bare<decltype(from.strides.template get<5 - Fast>())>, fixed<1>>) {
      const auto turn = [&](auto lanes) TENON_LAMBDA {
        using N = decltype(lanes);
        if constexpr (turns<N, Block>)
          for (; i + N::width <= k; i += N::width)
            pack_turned<N, Block>(p + i, index_t(fast), filled, to + i * Block);
      };
      turn(L{});
#if TENON_SIMD_WIDTH >= 8
      if constexpr (L::width >= 8)
        turn(simd<L::width / 2>{});
#endif
    }
    for (; i < k; ++i)
      for (index_t j = 0; j < Block; ++j)
        to[i * Block + j] = j < filled ? A(load_element(p + j * index_t(fast) + i * slow)) : A(0);
  }
}

/// The same in words of two elements, each less `zero`; k counts elements.
template <int Block, int Fast, class View>
TENON_FN void pack_pairs(const View &from, const index_t *at, index_t k, index_t filled,
                         int32_t zero, int32_t *to) {
  const index_t fast = from.strides.template get<Fast>();
  const index_t slow = from.strides.template get<5 - Fast>();
  const auto *p = from.data + from.offset(at);
  for (index_t i = 0; i < k; i += 2, to += Block)
    for (index_t j = 0; j < Block; ++j) {
      const auto *q = p + (j < filled ? j : 0) * fast + i * slow;
      const int32_t low = j < filled ? q[0] - zero : 0;
      const int32_t high = j < filled && i + 1 < k ? q[slow] - zero : 0;
      to[j] = int32_t((uint32_t(low) & 0xffffu) | uint32_t(high) << 16);
    }
}

template <class Cfg, int Block, int Fast, class View>
TENON_FN void pack_operand(const View &from, const index_t *at, index_t k, index_t filled,
                           typename Cfg::accumulator *to) {
  if constexpr (Cfg::pairs)
    pack_pairs<Block, Fast>(from, at, k, filled, Fast == 2 ? Cfg::zero_a : Cfg::zero_b, to);
  else
    pack_block<typename Cfg::lanes, Block, Fast>(from, at, k, filled, to);
}

} // namespace detail

template <class Cfg, class X, class Y, class Outs, class Ins, class Body>
void matmul_dynamic(const Cfg &cfg, const X &a, const Y &b, const Outs &outs, const Ins &ins,
                    const Body &body, pool &workers) {
  using namespace detail;
  using L = typename Cfg::lanes;
  using A = typename Cfg::accumulator;
  constexpr int mr = Cfg::mr, nr = Cfg::nr, depth = Cfg::depth, group = 8;
  static_assert(nr % L::width == 0, "nr is a whole number of vectors");
  static_assert(!Cfg::pairs || depth % 2 == 0, "blocks hold whole pairs");
  const index_t m = cfg.m, n = cfg.n, k = cfg.k;
  odometer<3> space;
  space.extents[0] = cfg.batch0;
  space.extents[1] = cfg.batch1;
  space.extents[2] = ceil_div(n, nr);
  index_t together = Cfg::panels;
  while (together > 1 && space.size() < 4 * together * workers.size())
    together /= 2;
  space.extents[2] = ceil_div(n, together * nr);
  workers.parallel_for(
      space.size(), 1 + (index_t(1) << 18) / (m * k * nr * together + 1),
      [&](index_t begin, index_t end) {
        const subnormals_as_zero guard;
        constexpr int spill = L::width; // of turned rows
        alignas(64) A rows[depth * mr + spill], columns[Cfg::panels][depth * nr],
            sums[group][Cfg::panels][mr * nr];
        odometer<3> it = space;
        it.seek(begin);
        for (index_t u = begin; u < end; ++u, it.step()) {
          const index_t column = it.at[2] * together * nr, left = n - column;
          const index_t panels = ceil_div(left, nr) < together ? ceil_div(left, nr) : together;
          for (index_t row0 = 0; row0 < m; row0 += group * mr) {
            const index_t stop = m - row0 < group * mr ? m : row0 + group * mr;
            for (index_t k0 = 0; k0 == 0 || k0 < k; k0 += depth) {
              const index_t count = k - k0 < depth ? k - k0 : depth;
              for (index_t p = 0; p < panels && (row0 == 0 || k > depth); ++p) {
                const index_t at_b[4] = {it.at[0], it.at[1], k0, column + p * nr},
                              rest = left - p * nr;
                pack_operand<Cfg, nr, 3>(b, at_b, count, rest < nr ? rest : nr, columns[p]);
              }
              for (index_t row = row0, tile = 0; row < stop; row += mr, ++tile) {
                const index_t at_a[4] = {it.at[0], it.at[1], row, k0};
                pack_operand<Cfg, mr, 2>(a, at_a, count, m - row < mr ? m - row : mr, rows);
                for (index_t p = 0; p < panels; ++p)
                  matmul_tile<Cfg>(rows, columns[p], count, k0 != 0, sums[tile][p]);
              }
            }
            for (index_t row = row0; row < stop; ++row)
              for (index_t j = 0; j < panels * nr && j < left; j += L::width) {
                const index_t at[4] = {it.at[0], it.at[1], row, column + j};
                const auto v =
                    load<L>(sums[(row - row0) / mr][j / nr] + (row - row0) % mr * nr + j % nr);
                if (left - j >= L::width)
                  apply_body<L, 3>(body, outs, ins, at, fixed<L::width>{}, v);
                else
                  apply_body<L, 3>(body, outs, ins, at, left - j, v);
              }
          }
        }
      });
}

} // namespace cpu
} // namespace tenon

#endif
