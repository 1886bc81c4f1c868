// Defines `decode_attention_sm80` and `decode_attention_sm90`: attention of few queries over many
// keys (decoding language models) on Tensor Cores, the keys spread over blocks.
//
//   y[b.., h, m, e] = sum over n of weight[h, m, n] * v[b.., n, e], where weight[h, m, ...] is the
//   softmax of scale * (sum over d of q[b.., h, m, d] * k[b.., n, d]) + bias[b.., h, m, n]
//
// Algorithm: attention_rows (tile/attention_rows.cuh). The `group` heads h share keys and values:
// their queries are rows of one tile of 16, so that keys are read once. `splits` blocks share the
// keys that any of the queries sees, their warps in turn, `keys` each at a time. The warps of a
// block bring its queries together; then each has a ring of its own in shared memory and waits for
// no other until its last key. Then the warps of a block join their sums, and the blocks theirs, in
// a fixed order, so that equal operands give equal bits: in sm_90's kernel they are a cluster, each
// of which finishes some columns of what the others send it; in sm_80's the last one that comes
// finds the others' sums in scratch. How many keys there are is read from memory (Order), so that a
// captured launch follows a cache that fills; blocks without keys send that they have none.
//
// Rows may be new (cache.cuh): the block in which a warp's turn is behind the last of the old keys
// computes them beside the queries, and whoever has keys and values in its ring writes them to
// where the cache is to be, or new ones alone where it stays.
//
// Config: batch (dims, the leading dimensions), group (fixed), m, n (`fixed` or `dyn`), d, e
// (`fixed`), causal, zero_undefined as for attention_sm80. Schedule: warps, keys (multiple of 16),
// stages, splits (sm_90: 8 at most). q, y: views over (batch..., group, m, d or e); k, v: over
// (batch..., group, n, d or e), whose stride along the group is 0; k and v are contiguous along the
// last dimension, and q is, or is an operand that is computed (base/computed.cuh, joined_columns,
// normed_columns). bias: pack() or pack(view over (batch..., group, m, n)), f32, f16 or bf16.
// order: an attention_order (common/attention_order.h) over (batch..., group, m, d). rows:
// no_appended_rows or appended_rows, of at most `keys` new ones, which n counts, too. scratch: as
// geometry.h has it, null for clusters and one split. Fast where rows are whole, aligned runs of 16
// bytes.
#ifndef TENON_RUNTIME_CUDA_DECODE_ATTENTION_KERNEL_CUH
#define TENON_RUNTIME_CUDA_DECODE_ATTENTION_KERNEL_CUH

#include "cuda/base/computed.cuh"
#include "cuda/base/last_to_come.cuh"
#include "cuda/decode_attention/cache.cuh"
#include "cuda/decode_attention/geometry.h"
#include "cuda/ptx/cluster.cuh"
#include "cuda/ptx/griddepcontrol.cuh"
#include "cuda/tile/attention_rows.cuh"
#include "cuda/tile/row_loader.cuh"
#include "cuda/tile/split_k.cuh"
#include "cuda/tile/tile_loader.cuh"

namespace tenon {
namespace cuda {

/// A schedule's members, to derive a Config from.
template <int Warps, int Keys, int Stages, int Splits> struct decode_attention_schedule {
  static constexpr int warps = Warps, keys = Keys, stages = Stages, splits = Splits;
};

template <bool Cluster, class Config, class Q, class K, class V, class Bias, class Y, class Order,
          class Rows>
struct decode_attention_kernel {
  Config cfg;
  float scale; // of products, to scores
  Q q;
  K k;
  V v;
  Bias bias;
  Y y;
  Order order;
  Rows added;
  split_scratch scratch;

  using element = detail::bare<typename K::element>;
  using index = index_of<Config>;
  static_assert(detail::is_same<element, f16> || detail::is_same<element, bf16>,
                "operands of 16 bits");
  static constexpr int leading = decltype(Config::batch)::rank, rank = leading + 3;
  static constexpr int d = int(decltype(Config::d)::value), e = int(decltype(Config::e)::value);
  static constexpr int group = int(decltype(Config::group)::value);
  static constexpr int warps = Config::warps, keys = Config::keys, stages = Config::stages,
                       splits = Config::splits;
  static constexpr decode_attention_geometry shape = {warps, keys, stages, splits, d, e, Cluster};
  static constexpr int depth = int(shape.depth()), width = int(shape.width());
  static constexpr int rows = decode_attention_geometry::rows, threads = int(shape.threads());
  static constexpr int blocks_per_sm = 1;
  static constexpr bool lets_next_begin = true;
  static constexpr int cluster_blocks = Cluster ? splits : 1; // neighbours along x
  static_assert(!Cluster || splits <= 8, "a cluster has at most 8 blocks");
  static_assert(detail::is_power_of_two(warps), "warps have even shares of columns");
  static constexpr bool is_causal = Config::causal >= 0, has_bias = Bias::count > 0;
  /// Whether old rows are read before the wait: where these do not depend on what is behind it.
  static constexpr bool early = Rows::early && (Rows::moves || !Order::has_window);
  using warp_rows = attention_rows<element, depth, width, keys, int(shape.sums()), has_bias>;
  using scores = typename warp_rows::scores;

  TENON_FN static constexpr bool runs_on(target t) {
    return Cluster ? t.arch >= 900 : tensor_cores_sm80::runs_on(t);
  }
  int shared_bytes() const { return int(shape.shared_bytes()); }
  grid blocks() const { return {splits * tiles() * volume(cfg.batch), 1, 1}; }

  TENON_DEVICE void prefetch(unsigned char *shared) const {
    if constexpr (shape.sends()) {
      if (thread() == 0) {
        arrived(shared).init(1);
        ptx::mbarrier::fence_init();
        if (finished_of(split()) > 0)
          arrived(shared).arrive_expecting(splits * (finished_of(split()) * 512 + rows * 8));
      }
      ptx::cluster::arrive(); // its barrier is ready
      sync_block();
    }
    if constexpr (early) { // which of the old rows does not depend on how many hold something
      const place at(*this);
      if (at.first == 0) {
        const old_tiles from(*this, at, 0, old_rows());
        TENON_UNROLL
        for (int i = 0; i < stages - 1; ++i) {
          from.bring(ring_of(shared) + i * stage_elements, first_tile() + i * splits * warps);
          ptx::cp_async_group::commit();
        }
      }
    }
  }

  TENON_DEVICE void run(unsigned char *shared) const {
    place at(*this);
    at.read_origin(*this);
    element *const ring = ring_of(shared), *const spare = ring + (stages - 1) * stage_elements;
    // Queries and new rows are on their way together, and with the origin.
    query_bringer queries;
    queries.fetch(q, present_queries(at), d, row_of_queries(at));
    const index begin = Order::first_key(at.origin, index(0));
    const index end = visible_keys(at.origin, count_of_queries());
    // Whether rows are to be written, and which are brought: all, or those that are seen.
    const bool writes = Rows::appends && at.first == 0, whole = writes && (Rows::moves || early);
    const index low = whole ? index(0) : begin, high = whole ? old_rows() : min_of(end, old_rows());
    const old_tiles from(*this, at, low, high);
    const int first = first_tile();
    // Whose turn is behind the last of the old tiles: a warp's, whose block computes new rows.
    const int turn = from.count % (splits * warps);
    const bool has_new = Rows::appends && turn == first,
               brings_new = Rows::appends && turn % splits == split();
    new_rows rows_behind;
    fetch_new(rows_behind, at, brings_new);
    if (!early || !whole) { // else they are on their way
      TENON_UNROLL
      for (int i = 0; i < stages - 1; ++i) {
        from.bring(ring + i * stage_elements, first + i * splits * warps);
        ptx::cp_async_group::commit();
      }
    }
    warp_rows s;
    if (brings_new)
      put_new(rows_behind, ring_of(shared, turn / splits) + (stages - 1) * stage_elements, at);
    take_queries(s, queries, at, shared);
    ptx::griddepcontrol::launch_dependents();
    // One of a warp's tiles after the other, that of new rows first.
    int tile = first, stage = 0;
    TENON_NO_UNROLL
    for (bool is_new = has_new; is_new || tile < from.count; is_new = false) {
      element *tiles = spare;
      index row = old_rows(), limit = count_of_keys();
      if (!is_new) {
        ptx::cp_async_group::wait<stages - 2>();
        sync_warp(); // other lanes have brought it, and are through with the one before
        from.bring(ring + (stage == 0 ? stages - 1 : stage - 1) * stage_elements,
                   tile + (stages - 1) * splits * warps);
        ptx::cp_async_group::commit();
        tiles = ring + stage * stage_elements;
        row = low + index(tile) * keys, limit = old_rows();
        stage = stage + 1 == stages ? 0 : stage + 1;
        tile += splits * warps;
      }
      if (writes && (is_new || Rows::moves))
        write_rows(tiles, at, row);
      if (whole && row + keys > end) // what holds nothing may be anything
        clear_values(tiles + tile_of_k::size, int(max_of(end - row, index(0))));
      if (row < end && row + keys > begin)
        attend(s, tiles, at, row, limit);
    }
    ptx::cp_async_group::wait<0>();
    complete(s, at, shared);
  }

private:
  using tile_of_k = detail::plain_tile<keys, depth, shape.gap, 8>;
  using tile_of_v = detail::plain_tile<keys, width, shape.gap, 8>;
  static constexpr int stage_elements = tile_of_k::size + tile_of_v::size;
  static_assert(shape.stage_bytes() == 2 * stage_elements, "as the tiles have it");
  static constexpr int own_blocks = int(shape.own_blocks()), sum_blocks = warp_rows::sum_blocks;
  static constexpr int finished_blocks = int(shape.finished_blocks());

  TENON_FN index_t tiles() const { return ceil_div(group * index_t(cfg.m), index_t(rows)); }
  TENON_DEVICE index count_of_queries() const { return index(index_t(cfg.m)); }
  TENON_DEVICE index count_of_keys() const { return index(index_t(cfg.n)); }
  /// How many rows k and v have.
  TENON_DEVICE index old_rows() const {
    if constexpr (Rows::appends)
      return index(index_t(added.past));
    else
      return count_of_keys();
  }
  /// How many keys the queries before `m` see.
  TENON_DEVICE index visible_keys(index origin, index m) const {
    return Order::template visible_keys<Config::causal>(origin, m, count_of_queries(),
                                                        count_of_keys());
  }
  TENON_DEVICE static int split() { return splits > 1 ? block_x() % splits : 0; }

  /// What a block works on.
  struct place {
    index point[rank] = {}; // of its batch entry
    index first;            // row of the tile
    index origin = 0;       // where queries begin among the keys
    TENON_DEVICE explicit place(const decode_attention_kernel &of) {
      const index block = index(block_x()) / splits, tiles = index(of.tiles());
      unravel<leading>(of.cfg.batch, block / tiles, point);
      first = block % tiles * rows;
    }
    TENON_DEVICE void read_origin([[maybe_unused]] const decode_attention_kernel &of) {
      if constexpr (Order::has_first) {
        const auto &view = of.order.first.head;
        origin = index(view.data[offset(view.strides, point)]);
      }
    }
    /// The first column of row `row` among those of all heads of the group.
    TENON_DEVICE void at_row(index (&to)[rank], index row, index queries) const {
      TENON_UNROLL
      for (int i = 0; i < leading; ++i)
        to[i] = point[i];
      to[leading] = row / queries;
      to[leading + 1] = row % queries;
      to[leading + 2] = 0;
    }
  };
  /// Row `r` of a place's tile: a head of the group and a query of it.
  TENON_DEVICE bool is_there(const place &at, int r) const {
    return at.first + r < group * count_of_queries();
  }
  TENON_DEVICE index query_of(const place &at, int r) const {
    return (at.first + r) % count_of_queries();
  }
  template <class View> TENON_DEVICE index row_of(const View &view, const place &at, int r) const {
    index point[rank];
    at.at_row(point, at.first + r, count_of_queries());
    return offset(view.strides, point);
  }

  TENON_DEVICE static element *ring_of(unsigned char *shared, int warp) {
    return reinterpret_cast<element *>(shared) + warp * stages * stage_elements;
  }
  TENON_DEVICE static element *ring_of(unsigned char *shared) { return ring_of(shared, warp()); }
  /// The first of a warp's tiles, which then come splits * warps apart.
  TENON_DEVICE static int first_tile() { return warp() * splits + split(); }

  template <class View>
  using stride_of = detail::bare<decltype(View::strides.template get<rank - 2>())>;
  template <class Tile, int Columns, class View>
  using loader_of = row_loader<element, stride_of<View>, Tile, Columns, 32, index,
                               Rows::whole && Columns % 8 == 0>;
  /// Keys or values from number `begin` on, for the lanes of a warp. (nvcc 13.0 crashes where the
  /// result's type stands in front.)
  template <class Tile, int Columns, class View>
  TENON_DEVICE static auto loader(const View &from, const place &at, index begin, index count) {
    const auto stride = from.strides.template get<rank - 2>();
    static_assert(detail::is_unit<decltype(from.strides.template get<rank - 1>())> &&
                      detail::is_broadcast<decltype(from.strides.template get<leading>())>,
                  "heads of a group share keys and values, which are contiguous");
    return loader_of<Tile, Columns, View>{from.data + offset(from.strides, at.point) +
                                              begin * index(index_t(stride)),
                                          stride, count, lane()};
  }
  /// Rows from `low` to `high` of k and v, in tiles.
  struct old_tiles {
    int count;
    loader_of<tile_of_k, d, K> keys_from;
    loader_of<tile_of_v, e, V> values_from;
    TENON_DEVICE old_tiles(const decode_attention_kernel &of, const place &at, index low,
                           index high)
        : count(high > low ? int(ceil_div(high - low, index(keys))) : 0),
          keys_from(loader<tile_of_k, d>(of.k, at, low, max_of(high - low, index(0)))),
          values_from(loader<tile_of_v, e>(of.v, at, low, max_of(high - low, index(0)))) {}
    TENON_DEVICE void bring(element *to, int tile) const {
      if (tile >= count)
        return;
      keys_from.issue(to, tile);
      values_from.issue(to + tile_of_k::size, tile);
      keys_from.put(to, tile);
      values_from.put(to + tile_of_k::size, tile);
    }
  };

  // --- rows that are computed, by way of shared memory ---

  /// A run of eight columns: `load` has it on its way, `get` is what is multiplied, zero from
  /// `count` on. What is computed of normalised rows is so with the statistics of its row.
  template <class From> struct loaded_columns;
  template <class T, class S> struct loaded_columns<view<T, S>> {
    element raw[8];
    TENON_DEVICE void load(const view<T, S> &from, const index (&point)[rank], int count) {
      fetch_run<Rows::whole>(raw, from.data + offset(from.strides, point),
                             from.strides.template get<rank - 1>(), count);
    }
    TENON_DEVICE void get(element (&to)[8], const view<T, S> &, const row_statistics &) const {
      memcpy(static_cast<void *>(to), static_cast<const void *>(raw), sizeof(raw));
    }
  };
  template <class T, int R, class Operands, class Body>
  struct loaded_columns<computed_view<T, R, Operands, Body>> {
    operand_runs<8, Operands> operands;
    int count;
    TENON_DEVICE void load(const computed_view<T, R, Operands, Body> &from,
                           const index (&point)[rank], int columns) {
      operands.template load<rank - 1, operand_part::all, Rows::whole>(from.ins, point, columns);
      count = columns;
    }
    TENON_DEVICE void get(element (&to)[8], const computed_view<T, R, Operands, Body> &from,
                          const row_statistics &row) {
      set_statistics(operands, row);
      TENON_UNROLL
      for (int i = 0; i < 8; ++i)
        store_element(&to[i], i < count ? float(operands.call(from.body, i)) : 0.0f);
    }
  };
  /// A run begins at a multiple of its length, so that it has columns of one of both, and zeros of
  /// the other: what both are computed of is on its way together.
  template <int Columns, class First, class Rest>
  struct loaded_columns<joined_columns<Columns, First, Rest>> {
    loaded_columns<First> first;
    loaded_columns<Rest> rest;
    TENON_DEVICE void load(const joined_columns<Columns, First, Rest> &from,
                           const index (&point)[rank], int count) {
      const bool is_first = point[rank - 1] < Columns;
      index further[rank];
      TENON_UNROLL
      for (int i = 0; i < rank; ++i)
        further[i] = point[i] - (i == rank - 1 ? Columns : 0);
      first.load(from.first, point, is_first ? count : 0);
      rest.load(from.rest, further, is_first ? 0 : count);
    }
    TENON_DEVICE void get(element (&to)[8], const joined_columns<Columns, First, Rest> &from,
                          const row_statistics &row) {
      element other[8];
      first.get(to, from.first, row);
      rest.get(other, from.rest, row);
      unsigned words[2][4];
      memcpy(words[0], static_cast<const void *>(to), sizeof(to));
      memcpy(words[1], static_cast<const void *>(other), sizeof(other));
      TENON_UNROLL
      for (int i = 0; i < 4; ++i)
        words[0][i] |= words[1][i];
      memcpy(static_cast<void *>(to), words[0], sizeof(to));
    }
  };
  template <int Depth, bool Centered, class X, class From>
  struct loaded_columns<normed_columns<Depth, Centered, X, From>> {
    loaded_columns<From> inner;
    using from_type = normed_columns<Depth, Centered, X, From>;
    TENON_DEVICE void load(const from_type &from, const index (&point)[rank], int count) {
      inner.load(from.from, point, count);
    }
    TENON_DEVICE void get(element (&to)[8], const from_type &from, const row_statistics &row) {
      inner.get(to, from.from, row);
    }
  };

  /// What a row is normalised by, of lanes that have a run of it each: nothing.
  template <int Lanes, class From> struct norm_run {
    TENON_DEVICE void load(const From &, const index (&)[rank], bool) {}
    TENON_DEVICE row_statistics statistics(const From &) const { return {}; }
  };
  template <int Lanes, int Depth, bool Centered, class X, class Columns>
  struct norm_run<Lanes, normed_columns<Depth, Centered, X, Columns>> {
    static_assert(Depth <= 8 * Lanes, "lanes have all of a row");
    using from = normed_columns<Depth, Centered, X, Columns>;
    fetched_run<8, X> x;

    TENON_DEVICE void load(const from &of, const index (&point)[rank], bool there) {
      x.template fetch<rank - 1, Rows::whole>(of.x, point, there ? columns() : 0);
    }
    TENON_DEVICE row_statistics statistics(const from &of) const {
      float mean = 0, squares = 0;
      if constexpr (Centered) {
        TENON_UNROLL
        for (int i = 0; i < 8; ++i)
          mean += float(x[i]); // zero behind the last column
        mean = all_of(mean) / float(Depth);
      }
      TENON_UNROLL
      for (int i = 0; i < 8; ++i) {
        const float apart = i < columns() ? float(x[i]) - mean : 0.0f;
        squares = mul_add(apart, apart, squares);
      }
      return {mean, 1.0f / sqrt<scalar_lanes>(all_of(squares) / float(Depth) + of.epsilon)};
    }

  private:
    TENON_DEVICE static int columns() { return max_of(0, min_of(8, Depth - lane() % Lanes * 8)); }
    TENON_DEVICE static float all_of(float sum) {
      TENON_UNROLL
      for (int mask = 1; mask < Lanes; mask *= 2)
        sum += shuffle_xor(sum, mask);
      return sum;
    }
  };

  /// Up to Most rows of an operand, which the block's warps bring to a tile of shared memory:
  /// neighbouring lanes have a run of the same row each, and further rows come in further passes.
  template <class Tile, int Most, class From> struct row_bringer {
    static constexpr int runs = Tile::columns / 8;
    static constexpr int lanes = runs <= 2    ? 2
                                 : runs <= 4  ? 4
                                 : runs <= 8  ? 8
                                 : runs <= 16 ? 16
                                              : 32;
    static constexpr int at_once = warps * (32 / lanes), passes = ceil_div(Most, at_once);
    static_assert(runs <= 32, "a warp has a row");
    /// Rows that are written: more than Most where passes have room.
    static constexpr int brought = min_of(passes * at_once, Tile::rows);
    struct part {
      loaded_columns<From> columns;
      norm_run<lanes, From> norm;
    };
    part first;

    /// The first of `there` rows of `columns` columns, of which at_row(point, row) says where they
    /// lie, are on their way. Others are zero.
    template <class AtRow>
    TENON_DEVICE void fetch(const From &from, int there, int columns, AtRow at_row) {
      load(first, 0, from, there, columns, at_row);
    }
    /// All Most rows.
    template <class AtRow>
    TENON_DEVICE void put(element *tile, const From &from, int there, int columns, AtRow at_row) {
      store(tile, first, 0, from);
      TENON_NO_UNROLL
      for (int i = 1; i < passes; ++i) {
        part more;
        load(more, i, from, there, columns, at_row);
        store(tile, more, i, from);
      }
    }

  private:
    TENON_DEVICE static int row_of(int pass) {
      return pass * at_once + warp() * (32 / lanes) + lane() / lanes;
    }
    template <class AtRow>
    TENON_DEVICE static void load(part &to, int pass, const From &from, int there, int columns,
                                  AtRow at_row) {
      const int row = row_of(pass), column = lane() % lanes * 8;
      index point[rank];
      at_row(point, index(row < there ? row : 0));
      point[rank - 1] = column;
      to.norm.load(from, point, row < there);
      to.columns.load(from, point, row < there ? max_of(0, min_of(8, columns - column)) : 0);
    }
    TENON_DEVICE static void store(element *tile, part &of, int pass, const From &from) {
      const row_statistics statistics = of.norm.statistics(from);
      element x[8];
      of.columns.get(x, from, statistics);
      if (row_of(pass) < Tile::rows && lane() % lanes < runs)
        detail::store_words(tile + Tile::at(row_of(pass), lane() % lanes), x);
    }
  };

  // --- queries ---

  using tile_of_q = detail::plain_tile<rows, depth, shape.gap, 8>;
  /// Rows of queries that a tile may have.
  template <class M> static constexpr int rows_of(M) {
    if constexpr (M::is_fixed)
      return min_of(rows, group * int(M::value));
    else
      return rows;
  }
  static constexpr int query_rows = rows_of(detail::bare<decltype(Config::m)>{});
  using query_bringer = row_bringer<tile_of_q, query_rows, Q>;

  TENON_DEVICE auto row_of_queries(const place &at) const {
    return [this, &at](index(&point)[rank], index row) {
      at.at_row(point, at.first + row, count_of_queries());
    };
  }
  TENON_DEVICE int present_queries(const place &at) const {
    return int(min_of(index(rows), group * count_of_queries() - at.first));
  }
  /// To the places that mma wants, by way of the block's tile. Rows that are not there are
  /// anything.
  TENON_DEVICE void take_queries(warp_rows &s, query_bringer &queries, const place &at,
                                 unsigned char *shared) const {
    element *const room = reinterpret_cast<element *>(shared + shape.queries_at());
    queries.put(room, q, present_queries(at), d, row_of_queries(at));
    sync_block();
    TENON_UNROLL
    for (int i = 0; i < depth / 16; ++i)
      ptx::ldmatrix_x4::load(s.query[i], room + tile_of_q::at(lane() % 16, 2 * i + lane() / 16));
  }

  // --- new rows ---

  /// f(row, first column, columns of the row) for the runs of a tile that are this lane's.
  template <class Tile, class F> TENON_DEVICE static void each_run(int columns, F f) {
    constexpr int runs = Tile::columns / 8, count = Tile::rows * runs;
    TENON_NO_UNROLL
    for (int i = lane(); i < count; i += 32)
      f(i / runs, i % runs * 8, max_of(0, min_of(8, columns - i % runs * 8)));
  }
  struct new_rows {
    row_bringer<tile_of_k, Rows::most, typename Rows::new_keys> of_keys;
    row_bringer<tile_of_v, Rows::most, typename Rows::new_values> of_values;
  };
  TENON_DEVICE static auto row_of_new(const place &at) {
    return [&at](index(&point)[rank], index row) {
      at.at_row(point, index(0), index(1));
      point[rank - 2] = row;
    };
  }
  TENON_DEVICE int count_of_new() const { return int(count_of_keys() - old_rows()); }
  TENON_DEVICE void fetch_new([[maybe_unused]] new_rows &rows, const place &at, bool there) const {
    if constexpr (Rows::appends) {
      const int count = there ? count_of_new() : 0;
      rows.of_keys.fetch(added.new_k, count, d, row_of_new(at));
      rows.of_values.fetch(added.new_v, count, e, row_of_new(at));
    }
  }
  TENON_DEVICE void put_new(new_rows &rows, element *to, const place &at) const {
    if constexpr (Rows::appends) {
      const int count = count_of_new();
      const element zeros[8] = {};
      rows.of_keys.put(to, added.new_k, count, d, row_of_new(at));
      rows.of_values.put(to + tile_of_k::size, added.new_v, count, e, row_of_new(at));
      // The weights of rows behind them are zero, and so are these: not anything.
      constexpr int runs = tile_of_v::columns / 8, brought = decltype(rows.of_values)::brought;
      for (int i = brought * runs + thread(); i < keys * runs; i += threads)
        detail::store_words(to + tile_of_k::size + tile_of_v::at(i / runs, i % runs), zeros);
    }
  }
  /// The keys and values in `tiles`, which are rows `first` and further, to the new cache.
  TENON_DEVICE void write_rows(const element *tiles, const place &at, index first) const {
    if constexpr (Rows::appends) {
      const index end = first < old_rows() ? old_rows() : count_of_keys(),
                  start = Rows::moves ? index(0) : old_rows();
      const auto write = [&](auto tile, const element *from, const auto &to, int columns) {
        using tile_of = decltype(tile);
        static_assert(detail::is_unit<decltype(to.strides.template get<rank - 1>())>,
                      "the cache is contiguous along its last dimension");
        element *const base = to.data + offset(to.strides, at.point);
        const index stride = index(index_t(to.strides.template get<rank - 2>()));
        each_run<tile_of>(columns, [&](int row, int column, int count) {
          if (first + row >= end)
            return;
          element held[8];
          detail::load_words(held, from + tile_of::at(row, column / 8));
          element *const place = base + (first + row - start) * stride + column;
          if (count == 8 && detail::is_aligned<16>(place)) {
            detail::store_words(place, held);
          } else {
            for (int i = 0; i < count; ++i)
              place[i] = held[i];
          }
        });
      };
      write(tile_of_k{}, tiles, added.present_k, d);
      write(tile_of_v{}, tiles + tile_of_k::size, added.present_v, e);
    }
  }
  /// Of values, rows from `first` on become zero: their weights are.
  TENON_DEVICE static void clear_values(element *values, int first) {
    sync_warp(); // they have been written
    each_run<tile_of_v>(width, [&](int row, int column, int) {
      const element zeros[8] = {};
      if (row >= first)
        detail::store_words(values + tile_of_v::at(row, column / 8), zeros);
    });
    sync_warp();
  }

  /// The keys and values from `first` on, which lie in `tile`; none from `limit` on.
  TENON_DEVICE void attend(warp_rows &s, const element *tile, const place &at, index first,
                           index limit) const {
    scores score = {};
    scores added = {};
    if constexpr (has_bias) { // on its way while products are computed
      const auto &view = bias.head;
      TENON_UNROLL
      for (int r = 0; r < 2; ++r) {
        const int row = lane() / 4 + 8 * r;
        warp_rows::load_bias(
            added, r, view.data + (is_there(at, row) ? row_of(view, at, row) : index(0)),
            index(index_t(view.strides.template get<rank - 1>())), first, count_of_keys());
      }
    }
    s.template multiply_keys<tile_of_k>(score, tile, 0);
    warp_rows::finish_scores(score, scale, order, added);
    if (first + keys > min_of(visible_keys(at.origin, index(1)), limit) ||
        first < Order::first_key(at.origin, count_of_queries() - 1)) {
      TENON_UNROLL
      for (int r = 0; r < 2; ++r) {
        const index query = query_of(at, lane() / 4 + 8 * r);
        warp_rows::template hide<Order::has_window>(
            score, r, int(Order::first_key(at.origin, query) - first),
            int(min_of(visible_keys(at.origin, query + 1), limit) - first));
      }
    }
    s.weigh(score);
    s.template multiply_values<tile_of_v>(score, tile + tile_of_k::size, 0);
  }

  // --- the join ---

  /// Of a lane's two rows the largest score and the total of the weights.
  struct extremes {
    float largest[2], total[2];
  };
  template <class T> TENON_DEVICE static word16 as_word(const T &value) {
    static_assert(sizeof(T) == sizeof(word16), "four words of four bytes");
    word16 w;
    memcpy(static_cast<void *>(&w), &value, sizeof(w));
    return w;
  }

  TENON_DEVICE static extremes as_extremes(const word16 &w) {
    extremes value;
    memcpy(&value, &w, sizeof(w));
    return value;
  }

  /// How many blocks of columns block `rank` of a cluster finishes.
  TENON_DEVICE static int finished_of(int rank) {
    return (sum_blocks - rank + splits - 1) / splits;
  }
  TENON_DEVICE static ptx::mbarrier &arrived(unsigned char *shared) {
    return *reinterpret_cast<ptx::mbarrier *>(shared + shape.barrier_at());
  }

  TENON_DEVICE void complete(warp_rows &s, const place &at, unsigned char *shared) const {
    float own[own_blocks * 4]; // columns 8 * (warp * own_blocks + j)
    s.add_up_totals();
    if constexpr (warps > 1) {
      sync_block(); // rings are done with
      s.template join_teams<warps, 32, rows>(own, lane() / 4, shared);
    } else {
      memcpy(own, s.sum, sizeof(own));
    }
    const extremes mine = {{s.largest[0], s.largest[1]}, {s.total[0], s.total[1]}};
    if constexpr (splits == 1) {
      TENON_UNROLL
      for (int j = 0; j < own_blocks; ++j)
        finish(
            at, warp() * own_blocks + j, lane(), [&](int) { return as_word(mine); },
            [&](int) { return as_word(reinterpret_cast<const float(&)[4]>(own[4 * j])); });
    } else if constexpr (Cluster) {
      join_cluster(own, mine, at, shared);
    } else {
      join_in_scratch(own, mine, at, shared);
    }
  }

  /// Each block sends its sums to those that finish them.
  TENON_DEVICE void join_cluster(const float (&own)[own_blocks * 4], const extremes &mine,
                                 const place &at, unsigned char *shared) const {
    word16 *const received = reinterpret_cast<word16 *>(shared + shape.received_at());
    word16 *const found = reinterpret_cast<word16 *>(shared + shape.extremes_at());
    const int from = split();
    ptx::cluster::wait(); // all have begun
    TENON_UNROLL
    for (int j = 0; j < own_blocks; ++j) {
      const int block = warp() * own_blocks + j;
      if (block < sum_blocks)
        ptx::cluster::send(received + (from * finished_blocks + block / splits) * 32 + lane(),
                           arrived(shared), block % splits,
                           as_word(reinterpret_cast<const float(&)[4]>(own[4 * j])));
    }
    if (lane() % 4 == 0)
      for (int to = warp(); to < min_of(splits, sum_blocks); to += warps)
        ptx::cluster::send(found + from * (rows / 2) + lane() / 4, arrived(shared), to,
                           as_word(mine));
    const int count = finished_of(from);
    if (count == 0)
      return;
    arrived(shared).wait_for_cluster(0);
    for (int i = thread(); i < 32 * count; i += threads)
      finish(
          at, i / 32 * splits + from, i % 32,
          [&](int s) { return found[s * (rows / 2) + i % 32 / 4]; },
          [&](int s) { return received[s * finished_blocks * 32 + i]; });
  }

  /// The last block to come finishes everything.
  TENON_DEVICE void join_in_scratch(const float (&own)[own_blocks * 4], const extremes &mine,
                                    const place &at, unsigned char *shared) const {
    constexpr int words = int(shape.part_words());
    const index tile = index(block_x()) / splits;
    word16 *const parts = reinterpret_cast<word16 *>(scratch.partials) + tile * splits * words;
    word16 *const to = parts + split() * words;
    TENON_UNROLL
    for (int j = 0; j < own_blocks; ++j)
      to[j * threads + thread()] = as_word(reinterpret_cast<const float(&)[4]>(own[4 * j]));
    if (thread() < 32 && lane() % 4 == 0)
      to[own_blocks * threads + lane() / 4] = as_word(mine);
    if (!comes_last(&scratch.counters[tile], splits,
                    reinterpret_cast<int *>(shared + shape.barrier_at())))
      return;
    TENON_UNROLL
    for (int j = 0; j < own_blocks; ++j)
      finish(
          at, warp() * own_blocks + j, lane(),
          [&](int s) {
            return load_uncached(parts + s * words + own_blocks * threads + lane() / 4);
          },
          [&](int s) { return load_uncached(parts + s * words + j * threads + thread()); });
  }

  /// Adds the parts of a block of columns, in their order, divides and stores what lane `l` has:
  /// extremes_of(part) and sums_of(part) are words.
  template <class ExtremesOf, class SumsOf>
  TENON_DEVICE void finish(const place &at, int block, int l, ExtremesOf extremes_of,
                           SumsOf sums_of) const {
    if (block >= sum_blocks)
      return;
    float largest[2] = {-float(INFINITY), -float(INFINITY)};
    TENON_UNROLL_BY(8)
    for (int s = 0; s < splits; ++s) {
      const extremes part = as_extremes(extremes_of(s));
      TENON_UNROLL
      for (int r = 0; r < 2; ++r)
        largest[r] = fmaxf(largest[r], part.largest[r]);
    }
    float sum[4] = {}, total[2] = {};
    TENON_UNROLL_BY(8)
    for (int s = 0; s < splits; ++s) {
      const extremes part = as_extremes(extremes_of(s));
      const word16 w = sums_of(s);
      float more[4];
      memcpy(more, &w, sizeof(w));
      TENON_UNROLL
      for (int r = 0; r < 2; ++r) {
        const float by = warp_rows::weight(part.largest[r] - warp_rows::relative_to(largest[r]));
        total[r] = mul_add(part.total[r], by, total[r]);
        sum[2 * r] = mul_add(more[2 * r], by, sum[2 * r]);
        sum[2 * r + 1] = mul_add(more[2 * r + 1], by, sum[2 * r + 1]);
      }
    }
    const int column = 8 * block + 2 * (l % 4);
    const auto step = y.strides.template get<rank - 1>();
    TENON_UNROLL
    for (int r = 0; r < 2; ++r) {
      const int row = l / 4 + 8 * r;
      if (!is_there(at, row) || column >= e)
        continue;
      const float inverse = index_t(cfg.n) > 0 ? 1.0f / total[r] : 0.0f;
      const bool defined = !Config::zero_undefined || total[r] > 0.0f;
      const float x[2] = {defined ? sum[2 * r] * inverse : 0.0f,
                          defined ? sum[2 * r + 1] * inverse : 0.0f};
      store_run(y.data + row_of(y, at, row) + column * index(index_t(step)), step, x,
                min_of(2, e - column));
    }
  }
};

template <class Config, class Q, class K, class V, class Bias, class Y, class Order = plain_order,
          class Rows = no_appended_rows>
decode_attention_kernel<false, Config, Q, K, V, Bias, Y, Order, Rows>
decode_attention_sm80(Config cfg, float scale, Q q, K k, V v, Bias bias, Y y, Order order = {},
                      Rows rows = {}, split_scratch scratch = {}) {
  using kernel = decode_attention_kernel<false, Config, Q, K, V, Bias, Y, Order, Rows>;
  const float unit = kernel::warp_rows::log2e / kernel::warp_rows::unit;
  order.cap *= unit;
  return {cfg, scale * unit, q, k, v, bias, y, order, rows, scratch};
}
template <class Config, class Q, class K, class V, class Bias, class Y, class Order = plain_order,
          class Rows = no_appended_rows>
decode_attention_kernel<true, Config, Q, K, V, Bias, Y, Order, Rows>
decode_attention_sm90(Config cfg, float scale, Q q, K k, V v, Bias bias, Y y, Order order = {},
                      Rows rows = {}) {
  using kernel = decode_attention_kernel<true, Config, Q, K, V, Bias, Y, Order, Rows>;
  const float unit = kernel::warp_rows::log2e / kernel::warp_rows::unit;
  order.cap *= unit;
  return {cfg, scale * unit, q, k, v, bias, y, order, rows, {}};
}

} // namespace cuda
} // namespace tenon

#endif
