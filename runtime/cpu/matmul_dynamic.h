// Defines matmul_dynamic: batched product of two operands known only at run time (attention scores,
// any MatMul of activations), in any layout.
//
//   y[b0, b1, m, n] = body(sum over k of a[b0, b1, m, k] * b[b0, b1, k, n], ins...)
//
// Blocks of `depth` rows of b by nr columns, and of mr rows of a, are copied to the stack in the
// order the register tile reads them; so transposed and strided operands cost about the same. b is
// copied once per column block when k <= depth, else again for each group of eight tiles; rows of a
// once for each `panels` column blocks. Sums stay in registers within a block. Rows of a whose
// elements follow each other, a `fixed` distance apart, are read where they lie instead, unless so
// many of them share a set of the first cache.
//
// Config (derive from matmul_dynamic_defaults): batch0, batch1, m, n, k (`fixed` or `dyn`);
//   mr, nr     schedule: register tile as in conv.h, e.g. 14x32 with AVX-512
//   depth      schedule: rows of b copied at once, 256 by default
//   panels     column blocks that share the copies of a, 1 by default; as many as leave each thread
//              some. (mr + panels * nr) * depth + 8 * panels * mr * nr elements of stack
//   lanes, accumulator
//   pairs      the operands are 8-bit integers less zero_a and zero_b (`fixed` or `dyn`), the sums
//              int32_t: copies hold two elements in each word, whose products are added at once; or
//              four where the machine has VNNI, as they are: the zero points are taken from the
//              sums by those of rows and columns
// a: view over (b0, b1, m, k); b: view over (b0, b1, k, n); outs, ins: views over (b0, b1, m, n).
#ifndef TENON_RUNTIME_CPU_MATMUL_DYNAMIC_H
#define TENON_RUNTIME_CPU_MATMUL_DYNAMIC_H

#include "common/byte_products.h"
#include "common/mul_add.h"
#include "cpu/epilogue.h"
#include "cpu/odometer.h"
#include "cpu/pool.h"
#include "cpu/subnormals.h"
#include "cpu/sum_lanes.h"
#include "cpu/transpose_lanes.h"
#include "cpu/unroll.h"

namespace tenon {
namespace cpu {

struct matmul_dynamic_defaults {
  static constexpr fixed<1> batch0{}, batch1{};
  static constexpr fixed<0> zero_a{}, zero_b{};
  static constexpr int depth = 256, panels = 1;
  static constexpr bool pairs = false;
  using lanes = native_lanes;
};

namespace detail {

/// sums[MR][nr] = (onto ? sums : 0) + a[k][MR] * b[k][nr] over `k` rows, as Products packs them.
/// Neighbours of a lie RowDistance apart along its rows, Next along k.
template <class Products, class Cfg, index_t RowDistance = 1, index_t Next = Cfg::mr>
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
  for (index_t i = 0; i < k; i += Products::step, a += Next, b += Cfg::nr) {
    V columns[nv];
    unroll<nv>([&](auto v) TENON_LAMBDA { columns[v] = load<L>(b + int(v) * L::width); });
    unroll<mr>([&](auto r) TENON_LAMBDA {
      const V x = broadcast<L, A>(a[int(r) * RowDistance]);
      unroll<nv>([&](auto v) TENON_LAMBDA { acc[r][v] = Products::add(acc[r][v], x, columns[v]); });
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

/// Tiles of rows whose sums are kept at once.
inline constexpr int tiles_of_group = 8;

/// How far apart rows of a lie that tiles read in place; 0: they are copied.
template <class A, class T, class Row, class Column> constexpr index_t row_distance_in_place() {
  if constexpr (is_same<T, A> && is_same<Column, fixed<1>> && Row::is_fixed) {
    constexpr index_t page = 4096; // lines that far apart share a set of the first cache
    return Row::value * index_t(sizeof(A)) % page == 0 ? 0 : Row::value;
  }
  return 0;
}

/// How words of one element, or of two, are packed and multiplied.
template <class Cfg> struct word_products {
  using L = typename Cfg::lanes;
  using A = typename Cfg::accumulator;
  using V = typename L::template of<A>;
  static constexpr index_t step = Cfg::pairs ? 2 : 1, depth = Cfg::depth;
  static constexpr bool reads_in_place = !Cfg::pairs;
  static_assert(!Cfg::pairs || depth % 2 == 0, "blocks hold whole pairs");
  const int32_t zero_a, zero_b;

  explicit TENON_FN word_products(const Cfg &cfg)
      : zero_a(int32_t(index_t(cfg.zero_a))), zero_b(int32_t(index_t(cfg.zero_b))) {}
  static TENON_FN V add(V acc, V x, V column) {
    if constexpr (Cfg::pairs)
      return acc + multiply_pairs<L>(x, column);
    else
      return mul_add(x, column, acc);
  }
  template <int Block, int Fast, class View>
  TENON_FN void pack(const View &from, const index_t *at, index_t k, index_t filled, A *to) const {
    if constexpr (Cfg::pairs)
      pack_pairs<Block, Fast>(from, at, k, filled, Fast == 2 ? zero_a : zero_b, to);
    else
      pack_block<L, Block, Fast>(from, at, k, filled, to);
  }
  template <class View>
  TENON_FN void pack_rows(const View &a, const index_t *at, index_t k, index_t filled, A *to,
                          index_t, bool) {
    pack<Cfg::mr, 2>(a, at, k, filled, to);
  }
  template <class View>
  TENON_FN void pack_columns(const View &b, const index_t *at, index_t k, index_t filled, A *to,
                             index_t, bool) {
    pack<Cfg::nr, 3>(b, at, k, filled, to);
  }
  TENON_FN V result(V sum, index_t, index_t, index_t, index_t) const { return sum; }
};

#if TENON_FOUR_PRODUCTS
/// Whether a number, `fixed` or `dyn`, is known to be v.
template <class D> constexpr bool is_known(index_t v) {
  if constexpr (D::is_fixed)
    return D::value == v;
  return false;
}

/// Bytes, four to a word, as vpdpbusd takes them: those of a unsigned, of b signed.
template <class Cfg, class X, class Y> struct dynamic_fours {
  using L = typename Cfg::lanes;
  using V = i32<L>;
  static constexpr index_t step = 4, depth = 4 * Cfg::depth; // in as much room
  static constexpr bool reads_in_place = false;
  static constexpr bool signed_a = is_signed<bare<typename X::element>>,
                        signed_b = is_signed<bare<typename Y::element>>;
  static constexpr bool a_is_centred = is_known<bare<decltype(Cfg::zero_a)>>(signed_a ? -128 : 0),
                        b_is_centred = is_known<bare<decltype(Cfg::zero_b)>>(signed_b ? 0 : 128);
  const int32_t zero_a, zero_b; // as the bytes are packed
  int32_t row_sums[tiles_of_group * Cfg::mr];
  alignas(64) int32_t column_sums[Cfg::panels][Cfg::nr];

  explicit TENON_FN dynamic_fours(const Cfg &cfg)
      : zero_a(int32_t(index_t(cfg.zero_a)) + (signed_a ? 128 : 0)),
        zero_b(int32_t(index_t(cfg.zero_b)) - (signed_b ? 0 : 128)) {}
  static TENON_FN V add(V acc, V x, V column) {
    return four_products::multiply_add<L>(acc, x, column);
  }
  /// Rows `first` and on. What a word has beyond k is 0 in b, whatever a has there.
  template <class View>
  TENON_FN void pack_rows(const View &a, const index_t *at, index_t k, index_t filled, int32_t *to,
                          index_t first, bool onto) {
    pack_fours<Cfg::mr, 2, signed_a>(a, at, k, filled, to);
    if constexpr (!b_is_centred)
      for (index_t r = 0; r < filled; ++r) {
        int32_t &sum = row_sums[first + r];
        sum = (onto ? sum : 0) + sum_of_row(a, at, k, r);
      }
  }
  template <class View>
  TENON_FN void pack_columns(const View &b, const index_t *at, index_t k, index_t filled,
                             int32_t *to, index_t panel, bool onto) {
    pack_fours<Cfg::nr, 3, !signed_b>(b, at, k, filled, to);
    if constexpr (!a_is_centred)
      for (index_t j = 0; j < Cfg::nr; j += L::width) {
        V sum = onto ? load<L>(column_sums[panel] + j) : V{};
        for (index_t i = 0; i < ceil_div(k, 4); ++i)
          sum = add(sum, broadcast<L, int32_t>(0x01010101), load<L>(to + i * Cfg::nr + j));
        store<L>(column_sums[panel] + j, sum);
      }
  }
  TENON_FN V result(V sum, index_t k, index_t row, index_t panel, index_t column) const {
    if constexpr (!b_is_centred)
      sum = sum - zero_b * (row_sums[row] - int32_t(k) * zero_a);
    if constexpr (!a_is_centred)
      sum = sum - load<L>(column_sums[panel] + column) * zero_a;
    return sum;
  }

private:
  /// The sum of k elements of row r, as they are packed.
  template <class View>
  static TENON_FN int32_t sum_of_row(const View &a, const index_t *at, index_t k, index_t r) {
    const auto *p = a.data + a.offset(at) + r * index_t(a.strides.template get<2>());
    int32_t sum = signed_a ? int32_t(128 * k) : 0;
    index_t i = 0;
    if constexpr (is_same<bare<decltype(a.strides.template get<3>())>, fixed<1>>) {
      V lanes = V{};
      for (; i + 4 * L::width <= k; i += 4 * L::width) {
        V four;
        memcpy(&four, p + i, sizeof(four));
        if constexpr (signed_a) // ones times signed bytes
          lanes = add(lanes, broadcast<L, int32_t>(0x01010101), four);
        else
          lanes = add(lanes, four, broadcast<L, int32_t>(0x01010101));
      }
      sum += sum_lanes<int32_t>(lanes);
    }
    for (; i < k; ++i)
      sum += p[i * index_t(a.strides.template get<3>())];
    return sum;
  }

  /// to[k / 4][Block] = words of four elements along k, with their highest bits turned if Turn;
  /// zeros beyond `filled`, and beyond k.
  template <int Block, int Fast, bool Turn, class View>
  static TENON_FN void pack_fours(const View &from, const index_t *at, index_t k, index_t filled,
                                  int32_t *to) {
    constexpr uint32_t turn = Turn ? 0x80808080u : 0;
    const auto fast = from.strides.template get<Fast>();
    const auto slow = from.strides.template get<5 - Fast>();
    using T = bare<typename View::element>;
    const T *p = from.data + from.offset(at);
    for (index_t i = 0; i < k; i += 4, to += Block) {
      const index_t count = k - i < 4 ? k - i : 4;
      const uint32_t kept = ~0u >> (8 * (4 - count));
      index_t j = 0;
      if constexpr (is_same<bare<decltype(fast)>, fixed<1>>)
        if (count == 4)
          for (; j + L::width <= filled; j += L::width) {
            u32<L> word = broadcast<L, uint32_t>(turn);
            unroll<4>([&](auto byte) TENON_LAMBDA {
              const auto *row = reinterpret_cast<const uint8_t *>(p + (i + int(byte)) * slow + j);
              word = word ^ (convert<u32<L>>(load<L>(row)) << (8 * int(byte)));
            });
            store<L>(to + j, convert<i32<L>>(word));
          }
      for (; j < Block; ++j) {
        uint32_t word = 0;
        if (j < filled) {
          if constexpr (is_same<bare<decltype(slow)>, fixed<1>>) {
            memcpy(&word, p + j * index_t(fast) + i, size_t(count));
          } else {
            for (index_t byte = 0; byte < count; ++byte)
              word |= uint32_t(uint8_t(p[j * index_t(fast) + (i + byte) * index_t(slow)]))
                      << (8 * byte);
          }
          word = (word ^ turn) & kept;
        }
        to[j] = int32_t(word);
      }
    }
  }
};
#endif

template <class Products, class Cfg, class X, class Y, class Outs, class Ins, class Body>
void matmul_dynamic_by(const Cfg &cfg, const X &a, const Y &b, const Outs &outs, const Ins &ins,
                       const Body &body, pool &workers) {
  using L = typename Cfg::lanes;
  using A = typename Cfg::accumulator;
  constexpr int mr = Cfg::mr, nr = Cfg::nr, group = tiles_of_group;
  constexpr index_t depth = Products::depth;
  static_assert(nr % L::width == 0, "nr is a whole number of vectors");
  const index_t m = cfg.m, n = cfg.n, k = cfg.k;
  odometer<3> space;
  space.extents[0] = cfg.batch0;
  space.extents[1] = cfg.batch1;
  space.extents[2] = ceil_div(n, nr);
  index_t together = Cfg::panels;
  while (together > 1 && space.size() < 4 * together * workers.size())
    together /= 2;
  space.extents[2] = ceil_div(n, together * nr);
  constexpr index_t distance =
      Products::reads_in_place
          ? row_distance_in_place<A, bare<typename X::element>,
                                  bare<decltype(a.strides.template get<2>())>,
                                  bare<decltype(a.strides.template get<3>())>>()
          : 0;
  // Columns that are copied once need no group of tiles that shares them.
  const index_t height = k > depth ? group * mr : mr;
  workers.parallel_for(
      space.size(), 1 + (index_t(1) << 18) / (m * k * nr * together + 1),
      [&](index_t begin, index_t end) {
        const subnormals_as_zero guard;
        constexpr int spill = L::width; // of turned rows
        alignas(64) A rows[Cfg::depth * mr + spill], columns[Cfg::panels][Cfg::depth * nr],
            sums[group][Cfg::panels][mr * nr];
        Products products(cfg);
        odometer<3> it = space;
        it.seek(begin);
        for (index_t u = begin; u < end; ++u, it.step()) {
          const index_t column = it.at[2] * together * nr, left = n - column;
          const index_t panels = ceil_div(left, nr) < together ? ceil_div(left, nr) : together;
          for (index_t row0 = 0; row0 < m; row0 += height) {
            const index_t stop = m - row0 < height ? m : row0 + height;
            for (index_t k0 = 0; k0 == 0 || k0 < k; k0 += depth) {
              const index_t count = k - k0 < depth ? k - k0 : depth;
              for (index_t p = 0; p < panels && (row0 == 0 || k > depth); ++p) {
                const index_t at_b[4] = {it.at[0], it.at[1], k0, column + p * nr},
                              rest = left - p * nr;
                products.pack_columns(b, at_b, count, rest < nr ? rest : nr, columns[p], p,
                                      k0 != 0);
              }
              for (index_t row = row0, tile = 0; row < stop; row += mr, ++tile) {
                const index_t at_a[4] = {it.at[0], it.at[1], row, k0};
                if constexpr (distance != 0)
                  if (m - row >= mr) {
                    for (index_t p = 0; p < panels; ++p)
                      matmul_tile<Products, Cfg, distance, 1>(a.data + a.offset(at_a), columns[p],
                                                              count, k0 != 0, sums[tile][p]);
                    continue;
                  }
                products.pack_rows(a, at_a, count, m - row < mr ? m - row : mr, rows, row - row0,
                                   k0 != 0);
                for (index_t p = 0; p < panels; ++p)
                  matmul_tile<Products, Cfg>(rows, columns[p], count, k0 != 0, sums[tile][p]);
              }
            }
            for (index_t row = row0; row < stop; ++row)
              for (index_t j = 0; j < panels * nr && j < left; j += L::width) {
                const index_t at[4] = {it.at[0], it.at[1], row, column + j};
                const auto v = products.result(
                    load<L>(sums[(row - row0) / mr][j / nr] + (row - row0) % mr * nr + j % nr), k,
                    row - row0, j / nr, j % nr);
                if (left - j >= L::width)
                  apply_body<L, 3>(body, outs, ins, at, fixed<L::width>{}, v);
                else
                  apply_body<L, 3>(body, outs, ins, at, left - j, v);
              }
          }
        }
      });
}

} // namespace detail

template <class Cfg, class X, class Y, class Outs, class Ins, class Body>
void matmul_dynamic(const Cfg &cfg, const X &a, const Y &b, const Outs &outs, const Ins &ins,
                    const Body &body, pool &workers) {
  using namespace detail;
#if TENON_FOUR_PRODUCTS
  if constexpr (Cfg::pairs && Cfg::lanes::width == TENON_SIMD_WIDTH)
    if (has_four_products)
      return matmul_dynamic_by<dynamic_fours<Cfg, X, Y>>(cfg, a, b, outs, ins, body, workers);
#endif
  matmul_dynamic_by<word_products<Cfg>>(cfg, a, b, outs, ins, body, workers);
}

} // namespace cpu
} // namespace tenon

#endif
