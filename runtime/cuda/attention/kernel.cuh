// Defines `attention_sm80`: attention of fp16 and bf16 on the Tensor Cores of sm_80 and up.
//
//   y[b.., m, e] = sum over n of weight[m, n] * v[b.., n, e], where weight[m, ...] is the softmax
//   of scale * (sum over d of q[b.., m, d] * k[b.., n, d]) + bias[b.., m, n]
//
// Algorithm: attention_rows (tile/attention_rows.cuh). A block takes `warps` times 16 queries of
// one head and lets keys and values pass in tiles through `stages` buffers of shared memory.
// `teams` of warps take different keys of a tile and join their sums in the end: few queries (small
// batches) leave no warp idle then. Keys are not spread over blocks, as decode_attention does.
//
// Shared memory: keys and values [stages][teams * keys][d and e], queries [16 * warps][d]; d and e
// rounded up to 16 by zeros, with a gap of 16 bytes that spreads the rows that ldmatrix reads over
// the banks. Results turn through it, so that rows are stored in runs of 16 bytes.
//
// Config: batch (dims, the leading dimensions), m, n (`fixed` or `dyn`), d, e (`fixed`),
// causal (keys n > m + causal are hidden from query m, and tiles of which no query of the block
// sees a key left out; -1: none are), zero_undefined (weights that are NaN, every key hidden, count
// as 0). Schedule: warps, teams, keys (multiple of 16), stages. q, k, v, y: views over (batch..., m
// or n, d or e), contiguous along the last dimension but for y; bias: a pack of what is added,
// views over (batch..., m, n) and attention_parts (common/attention_part.h), f32, f16 or bf16;
// order: an attention_order (common/attention_order.h), whose origin is read from memory, so that a
// captured launch follows a cache that fills; y may be attention_results. Fast where rows are
// whole, aligned runs of 16 bytes; right otherwise.
#ifndef TENON_RUNTIME_CUDA_ATTENTION_KERNEL_CUH
#define TENON_RUNTIME_CUDA_ATTENTION_KERNEL_CUH

#include "common/attention_part.h"
#include "cuda/attention/geometry.h"
#include "cuda/attention/results.cuh"
#include "cuda/tile/attention_rows.cuh"
#include "cuda/tile/row_loader.cuh"
#include "cuda/tile/tile_pipeline.cuh"

namespace tenon {
namespace cuda {

/// A schedule's members, to derive a Config from.
template <int Warps, int Teams, int Keys, int Stages> struct attention_schedule {
  static constexpr int warps = Warps, teams = Teams, keys = Keys, stages = Stages;
};

template <class Config, class Q, class K, class V, class Bias, class Y, class Order = plain_order>
struct attention_sm80_kernel {
  Config cfg;
  float scale; // of products, to scores
  Q q;
  K k;
  V v;
  Bias bias;
  Y y;
  Order order;

  using element = detail::bare<typename Q::element>;
  using index = index_of<Config>;
  static_assert(detail::is_same<element, f16> || detail::is_same<element, bf16>,
                "operands of 16 bits");
  static constexpr int rank = decltype(Config::batch)::rank + 2;
  static constexpr int d = int(decltype(Config::d)::value), e = int(decltype(Config::e)::value);
  static constexpr int warps = Config::warps, teams = Config::teams, keys = Config::keys;
  static constexpr int stages = Config::stages;
  static constexpr attention_geometry shape = {warps, teams, keys, stages, d, e};
  static constexpr int depth = shape.depth(), width = shape.width();
  static constexpr int rows = shape.queries(), tile = shape.tile_keys();
  static constexpr int threads = shape.threads(), blocks_per_sm = 1;
  static_assert(keys % 16 == 0 && detail::is_power_of_two(teams), "warps multiply 16 keys at once");

  using tile_of_q = detail::plain_tile<rows, depth, shape.gap, 8>;
  using tile_of_k = detail::plain_tile<tile, depth, shape.gap, 8>;
  using tile_of_v = detail::plain_tile<tile, width, shape.gap, 8>;
  using turned = detail::plain_tile<rows, width, shape.gap, 8>;
  static constexpr bool is_causal = Config::causal >= 0;
  static constexpr bool has_bias = Bias::count > 0;
  using warp_rows = attention_rows<element, depth, width, keys, int(shape.sums()), has_bias>;
  using scores = typename warp_rows::scores;
  /// Blocks of 8 columns that a team has in the end.
  static constexpr int own_blocks = int(shape.sums()) / 4 / teams;
  static_assert(shape.tile_bytes() ==
                    2 * (stages * (tile_of_k::size + tile_of_v::size) + tile_of_q::size),
                "as the tiles have it");

  TENON_FN static constexpr bool runs_on(target t) { return tensor_cores_sm80::runs_on(t); }
  int shared_bytes() const { return shape.shared_bytes(); }
  grid blocks() const { return {query_tiles() * volume(cfg.batch), 1, 1}; }

  TENON_DEVICE void run(unsigned char *shared) const {
    element *const memory = reinterpret_cast<element *>(shared);
    const auto k_at = [=](int stage) { return memory + stage * tile_of_k::size; };
    const auto v_at = [=](int stage) {
      return memory + stages * tile_of_k::size + stage * tile_of_v::size;
    };
    element *const q_tile = v_at(stages);

    const index tiles = index(query_tiles());
    index at[rank] = {};
    unravel<rank - 2>(cfg.batch, index(block_x()) / tiles, at);
    const auto from_k = loader<tile_of_k, d>(k, at, count_of_keys());
    const auto from_v = loader<tile_of_v, e>(v, at, count_of_keys());
    const index turn = index(block_x()) % tiles; // the longest first
    at[rank - 2] = (is_causal ? tiles - 1 - turn : turn) * rows;
    const auto from_q = loader<tile_of_q, d>(q, at, count_of_queries() - at[rank - 2]);

    warp_rows s;
    const index origin = origin_of(at);
    from_q.issue(q_tile, 0); // there with the first keys
    from_q.put(q_tile, 0);
    block_part part{};
    part.first = int(Order::first_key(origin, at[rank - 2]) / index(tile));
    part.end = int(ceil_div(visible_keys(origin, at[rank - 2] + rows), index(tile)));
    pipeline<stages>(from_k, from_v, part, k_at, v_at, [&](int stage, int kt) {
      if (kt == part.first)
        load_queries(s, q_tile);
      attend(s, k_at(stage), v_at(stage), at, origin, index(kt) * tile + team() * keys);
    });
    complete(s, at, shared);
  }

private:
  TENON_FN index_t query_tiles() const { return ceil_div(index_t(cfg.m), index_t(rows)); }
  TENON_DEVICE index count_of_queries() const { return index(index_t(cfg.m)); }
  TENON_DEVICE index count_of_keys() const { return index(index_t(cfg.n)); }
  /// How many keys the queries before `m` see.
  TENON_DEVICE index visible_keys(index origin, index m) const {
    return Order::template visible_keys<Config::causal>(origin, m, count_of_queries(),
                                                        count_of_keys());
  }
  /// Where the queries of the batch entry `at` begin among the keys.
  TENON_DEVICE index origin_of([[maybe_unused]] const index (&at)[rank]) const {
    if constexpr (Order::has_first) {
      const auto &view = order.first.head;
      return index(view.data[offset(view.strides, at)]);
    } else {
      return 0;
    }
  }
  TENON_DEVICE static int team() { return warp() / warps; }
  /// The first of the warp's queries, among those of the block.
  TENON_DEVICE static int my_row() { return warp() % warps * 16; }

  /// Rows from the point `at` on.
  template <class Tile, int Columns, class View>
  TENON_DEVICE static auto loader(const View &from, const index (&at)[rank], index count) {
    const auto stride = from.strides.template get<rank - 2>();
    static_assert(detail::is_unit<decltype(from.strides.template get<rank - 1>())>,
                  "queries, keys and values are contiguous along their last dimension");
    return row_loader<element, detail::bare<decltype(stride)>, Tile, Columns, threads, index>(
        from.data + offset(from.strides, at), stride, count);
  }

  TENON_DEVICE static void load_queries(warp_rows &s, const element *q_tile) {
    TENON_UNROLL
    for (int i = 0; i < depth / 16; ++i)
      ptx::ldmatrix_x4::load(s.query[i],
                             q_tile + tile_of_q::at(my_row() + lane() % 16, 2 * i + lane() / 16));
  }

  /// The keys and values from `first` on, a team's part of a tile.
  TENON_DEVICE void attend(warp_rows &s, const element *k_tile, const element *v_tile,
                           const index (&at)[rank], index origin, index first) const {
    scores score = {};
    scores added = {};
    load_bias(added, bias, at, first); // on its way while products are computed
    s.template multiply_keys<tile_of_k>(score, k_tile, team() * keys);
    warp_rows::finish_scores(score, scale, order, added);
    hide(score, origin, at[rank - 2] + my_row(), first);
    s.weigh(score);
    s.template multiply_values<tile_of_v>(score, v_tile, team() * keys);
  }

  /// Scores of keys that queries from `m` on do not see are -infinity.
  TENON_DEVICE void hide(scores &score, index origin, index m, index first) const {
    if (first + keys <= visible_keys(origin, m + 1) && first >= Order::first_key(origin, m + 15))
      return;
    TENON_UNROLL
    for (int r = 0; r < 2; ++r) {
      const index query = m + lane() / 4 + 8 * r;
      warp_rows::template hide<Order::has_window>(score, r,
                                                  int(Order::first_key(origin, query) - first),
                                                  int(visible_keys(origin, query + 1) - first));
    }
  }

  TENON_DEVICE void load_bias(scores &, const arguments<> &, const index (&)[rank], index) const {}
  /// Loads what is added to this lane's scores, a bias first; to those that do not exist whatever.
  template <class B, class... More>
  TENON_DEVICE void load_bias(scores &added, const arguments<B, More...> &from,
                              const index (&at)[rank], index first) const {
    using kind = added_to_scores<B>;
    const auto &view = kind::view(from.head);
    const index step = index(index_t(view.strides.template get<rank - 1>()));
    index point[rank];
    for (int i = 0; i < rank; ++i)
      point[i] = at[i];
    TENON_UNROLL
    for (int r = 0; r < 2; ++r) {
      const index row = at[rank - 2] + my_row() + lane() / 4 + 8 * r;
      point[rank - 2] = min_of(row, count_of_queries() - 1);
      point[rank - 1] = 0;
      const auto *const there = view.data + offset(view.strides, point);
      if constexpr (kind::is_part)
        add_part<kind>(added, r, there, step, first);
      else
        warp_rows::load_bias(added, r, there, step, first, count_of_keys());
    }
    load_bias(added, from.tail, at, first);
  }
  template <class Kind, class T>
  TENON_DEVICE static void add_part(scores &added, int r, const T *from, index step, index first) {
    TENON_UNROLL
    for (int j = 0; j < keys / 8; ++j) {
      TENON_UNROLL
      for (int i = 0; i < 2; ++i)
        added[j][2 * r + i] +=
            load_element(from + Kind::column(first + 8 * j + 2 * (lane() % 4) + i) * step);
    }
  }

  /// Divides sums by those of weights and stores them.
  TENON_DEVICE void complete(warp_rows &s, const index (&at)[rank], unsigned char *shared) const {
    s.add_up_totals();
    if constexpr (teams == 1) {
      turn(s.sum, s.total, reinterpret_cast<element *>(shared));
    } else {
      float own[own_blocks * 4];
      s.template join_teams<teams, 32 * warps, rows>(own, my_row() + lane() / 4, shared);
      turn(own, s.total, reinterpret_cast<element *>(shared));
    }
    sync_block();
    store(reinterpret_cast<const element *>(shared), at);
  }

  /// A team's blocks of columns, divided, to rows in shared memory.
  template <int Count>
  TENON_DEVICE void turn(const float (&sum)[Count], const float (&total)[2], element *to) const {
    TENON_UNROLL
    for (int r = 0; r < 2; ++r) {
      const float inverse = index_t(cfg.n) > 0 ? 1.0f / total[r] : 0.0f;
      const bool defined = !Config::zero_undefined || total[r] > 0.0f;
      TENON_UNROLL
      for (int j = 0; j < own_blocks; ++j) {
        const int block = team() * own_blocks + j;
        const float *x = sum + 4 * j + 2 * r;
        const unsigned pair =
            defined ? ptx::round_pair<element>::of(x[0] * inverse, x[1] * inverse) : 0u;
        if (block < warp_rows::sum_blocks)
          memcpy(static_cast<void *>(to + turned::at(my_row() + lane() / 4 + 8 * r, block) +
                                     2 * (lane() % 4)),
                 &pair, sizeof(pair));
      }
    }
  }

  TENON_DEVICE void store(const element *from, const index (&at)[rank]) const {
    constexpr int runs = ceil_div(e, 8);
    const int count = int(min_of(index(rows), count_of_queries() - at[rank - 2]));
    for (int i = thread(); i < count * runs; i += threads) {
      const int row = i / runs, run = i % runs;
      float x[8];
      load_run(x, from + turned::at(row, run), fixed<1>{}, 8);
      store_run_of(at, row, 8 * run, x);
    }
  }
  /// Of the block's row `row`, from column `column` on.
  TENON_DEVICE void store_run_of(const index (&at)[rank], int row, int column,
                                 const float (&x)[8]) const {
    const int count = min_of(8, e - column);
    if constexpr (detail::has_attention_body<Y>) {
      index to[rank];
      TENON_UNROLL
      for (int i = 0; i < rank; ++i)
        to[i] = at[i];
      to[rank - 2] += row;
      to[rank - 1] = column;
      y.store(to, count, x);
    } else {
      const auto step = y.strides.template get<rank - 1>();
      const index stride = index(index_t(y.strides.template get<rank - 2>()));
      auto *const to = y.data + offset(y.strides, at);
      store_run(to + row * stride + column * index_t(step), step, x, count);
    }
  }
};

template <class Config, class Q, class K, class V, class Bias, class Y, class Order = plain_order>
attention_sm80_kernel<Config, Q, K, V, Bias, Y, Order>
attention_sm80(Config cfg, float scale, Q q, K k, V v, Bias bias, Y y, Order order = {}) {
  using kernel = attention_sm80_kernel<Config, Q, K, V, Bias, Y, Order>;
  const float unit = kernel::has_bias ? 1.0f : kernel::warp_rows::log2e;
  order.cap *= unit;
  return {cfg, scale * unit, q, k, v, bias, y, order};
}

} // namespace cuda
} // namespace tenon

#endif
