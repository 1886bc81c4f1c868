// Defines `attention_sm90`: attention of fp16 and bf16 by warpgroups, with the copy engine as
// loader (sm_90a only). What it computes, its operands and the rest of its Config are those of
// kernel.cuh.
//
// Algorithm: a block takes 64 queries of one head for each of `warpgroups` consumers, or for every
// `teams` of them. One thread of the last warpgroup brings the queries, then tiles of `keys` keys
// and of their values, the last first, into rings of `stages` buffers. Each consumer multiplies its
// queries with a tile of keys, follows the largest score so far, and multiplies the weights,
// rounded to the values' type and still in registers, with the values. `teams` of consumers share
// the same queries, take every teams-th tile and join their sums in the end, so that few queries
// leave no multiprocessor idle.
//
//   overlap   products of the next tile's scores run while this tile's weights and values are
//             multiplied, and its softmax while the latter runs
//   turns     consumers issue their products in turn, so that one multiplies while another computes
//             weights; sums are scaled down only when a score has grown by more than 2^8
//
// Shared memory: queries [d / 64][queries][64], rings of keys [stages][d / 64][keys][64] and of
// values [stages][e / 64][keys][64], swizzled as the copy engine does it (ptx/wgmma.cuh); barriers.
// What lies beyond the last column, key or query is zero. Results turn through the place of the
// queries, so that rows are stored in runs of 16 bytes.
//
// Config: as for kernel.cuh, with 1 to 256 for d and e, at most three dims of batch, and bias_pairs
// (two neighbours of the bias along n start at a multiple of their bytes, and n is even). Schedule:
// warpgroups, teams, keys (multiple of 32), stages, overlap, turns, blocks (of a multiprocessor).
// bias: at most one view and parts, the view first. q, k, v: views that tensor maps describe
// (tensor_map.h). The scale is positive. order: an attention_order without a bound of scores; what
// lies behind the keys that it leaves may be anything.
#ifndef TENON_RUNTIME_CUDA_ATTENTION_SM90_CUH
#define TENON_RUNTIME_CUDA_ATTENTION_SM90_CUH

#include "common/attention_order.h"
#include "cuda/attention/geometry.h"
#include "cuda/attention/results.cuh"
#include "cuda/attention/tile_parts.cuh"
#include "cuda/ptx/elect.cuh"
#include "cuda/ptx/exp2.cuh"
#include "cuda/ptx/named_barrier.cuh"
#include "cuda/ptx/proxy_fence.cuh"
#include "cuda/ptx/round_pair.cuh"
#include "cuda/ptx/setmaxnreg.cuh"
#include "cuda/ptx/stmatrix.cuh"
#include "cuda/warpgroup/tensor_loader.cuh"

namespace tenon {
namespace cuda {

/// A schedule's members, to derive a Config from.
template <int Warpgroups, int Teams, int Keys, int Stages, bool Overlap, bool Turns, int Blocks>
struct attention_sm90_schedule {
  static constexpr int warpgroups = Warpgroups, teams = Teams, keys = Keys, stages = Stages;
  static constexpr bool overlap = Overlap, turns = Turns;
  static constexpr int blocks = Blocks;
};

template <class Config, class Q, class K, class V, class Bias, class Y, class Order>
struct attention_sm90_kernel {
  Config cfg;
  float scale; // of products, to scores
  Q q;
  K k;
  V v;
  Bias bias;
  Y y;
  Order order;
  tensor_map map_q = {}, map_k = {}, map_v = {};

  using element = detail::bare<typename Q::element>;
  using index = index_of<Config>;
  static_assert(detail::is_same<element, f16> || detail::is_same<element, bf16>,
                "operands of 16 bits");
  static constexpr int rank = decltype(Config::batch)::rank + 2;
  static_assert(rank <= 5, "tensor maps have five dimensions");
  static constexpr int e = int(decltype(Config::e)::value);
  static constexpr bool is_causal = Config::causal >= 0;
  static_assert(!Order::is_capped, "scores have no bound");
  static constexpr bool has_bias = Bias::count > 0, bias_pairs = Config::bias_pairs;
  static constexpr bool has_full_bias = starts_with_bias<Bias>;
  static constexpr int warpgroups = Config::warpgroups, teams = Config::teams;
  static constexpr int keys = Config::keys, stages = Config::stages;
  using parts = tile_parts<keys, Bias>;
  static constexpr attention_sm90_geometry shape = {
      warpgroups, teams,       keys, stages, Config::blocks, index_t(decltype(Config::d)::value),
      e,          parts::words};
  static constexpr int depth = shape.depth(), width = shape.width(), rows = shape.queries();
  static constexpr int threads = shape.threads(), blocks_per_sm = Config::blocks;
  static constexpr int in_team = warpgroups / teams; // warpgroups
  static_assert(keys % 32 == 0 && keys <= 256 && depth <= 256 && width <= 256, "products exist");
  static_assert(warpgroups % teams == 0, "teams are alike");
  static_assert(has_full_bias || !bias_pairs, "pairs of a bias");
  static_assert(!Config::turns || (teams == 1 && warpgroups > 1), "all take as many turns");

  /// Scores are in units of `unit` to the base of 2: products themselves where nothing is added to
  /// them. A bias may be as large as floats are, and stays what it is.
  static constexpr float log2e = 1.44269504f;
  TENON_DEVICE float unit() const { return has_bias ? log2e : scale; }

  TENON_FN static constexpr bool runs_on(target t) { return t.arch == 900 && t.specific; }
  int shared_bytes() const { return shape.shared_bytes(); }
  grid blocks() const { return {query_tiles() * volume(cfg.batch), 1, 1}; }
  status complete() {
    TENON_CHECK(encode(map_q, q, index_t(cfg.m), shape.d, rows));
    TENON_CHECK(encode(map_k, k, index_t(cfg.n), shape.d, keys));
    return encode(map_v, v, index_t(cfg.n), shape.e, keys);
  }

  TENON_DEVICE void prefetch(unsigned char *shared) const {
    if (uniform_warp() == producer_warp && ptx::elect::one()) {
      ptx::prefetch_tensor_map::hint(map_q);
      ptx::prefetch_tensor_map::hint(map_k);
      ptx::prefetch_tensor_map::hint(map_v);
      buffers{ptx::opaque(shared)}.init();
    }
    sync_block(); // barriers are ready
  }

  TENON_DEVICE void run(unsigned char *shared) const {
    const buffers at{ptx::opaque(shared)};
    const int group = uniform_warp() / 4;
    if (group == warpgroups) {
      if constexpr (shape.moves_registers())
        ptx::setmaxnreg<shape.producer_registers>::release();
      if (uniform_warp() == producer_warp && ptx::elect::one())
        produce(at, my_part());
    } else {
      if constexpr (shape.moves_registers())
        ptx::setmaxnreg<shape.consumer_registers()>::acquire();
      consume(at, my_part(), group);
    }
  }

private:
  static constexpr int producer_warp = 4 * warpgroups;
  using products_qk = ptx::wgmma_shared<element, keys>;
  using products_pv = ptx::wgmma_registers<element, width, true>;
  using tile = ptx::wgmma_tile<128>;
  using pair = ptx::round_pair<element>;

  /// Whether all queries of a head have the same bias.
  TENON_FN static constexpr bool shares_bias() {
    if constexpr (has_full_bias)
      return detail::is_broadcast<decltype(Bias{}.head.strides.template get<rank - 2>())>;
    return false;
  }

  struct barriers {
    ptx::mbarrier q, full_k[stages], full_v[stages], empty_k[stages], empty_v[stages];
  };
  static_assert(sizeof(barriers) == shape.barrier_bytes(), "as the geometry has it");
  static_assert(shape.fits_registers(parts::held + (shares_bias() ? keys / 4 : 0)),
                "registers suffice");
  static_assert(shape.joining_bytes() <= shape.barriers_at() - shape.keys_at(), "sums fit");

  struct buffers {
    unsigned char *shared;

    TENON_DEVICE unsigned char *q() const { return shared; }
    TENON_DEVICE unsigned char *k(int stage) const {
      return shared + shape.keys_at() + stage * int(shape.key_bytes());
    }
    TENON_DEVICE unsigned char *v(int stage) const {
      return shared + shape.values_at() + stage * int(shape.value_bytes());
    }
    TENON_DEVICE barriers &bar() const {
      return *reinterpret_cast<barriers *>(shared + shape.barriers_at());
    }
    TENON_DEVICE void init() const {
      barriers &b = bar();
      b.q.init(1);
      TENON_UNROLL
      for (int s = 0; s < stages; ++s) {
        b.full_k[s].init(1);
        b.full_v[s].init(1);
        b.empty_k[s].init(4 * in_team);
        b.empty_v[s].init(4 * in_team);
      }
      ptx::mbarrier::fence_init();
    }
  };

  /// What a block computes: the leading coordinates and the first query; tiles of keys, which of
  /// them is the first, and where queries begin among the keys.
  struct block_of_queries {
    index at[rank] = {};
    index origin = 0;
    int first_tile, tiles;
    TENON_DEVICE index first_query() const { return at[rank - 2]; }
    /// Of the tile that comes in turn `t`: the last first.
    TENON_DEVICE index first_key(int t) const { return index(first_tile + tiles - 1 - t) * keys; }
  };

  /// Where in the rings a team is: its tiles are every teams-th.
  struct position {
    int stage = 0, parity = 0;
    TENON_DEVICE explicit position(int first) {
      for (int i = 0; i < first; ++i)
        next();
    }
    TENON_DEVICE void next() {
      if (++stage == stages)
        stage = 0, parity ^= 1;
    }
    TENON_DEVICE void skip() {
      TENON_UNROLL
      for (int i = 0; i < teams; ++i)
        next();
    }
  };

  /// What a thread keeps, of rows lane / 4 and lane / 4 + 8 of its warp's queries.
  struct state {
    float sum[width / 2];       // of values, as wgmma leaves them
    float largest[2], total[2]; // score so far, sum of this lane's weights
    float factor[2];            // by which the sums have to be multiplied
    bool grown;                 // they have to
    unsigned weight[keys / 4];
    parts added;
  };

  TENON_FN index_t query_tiles() const { return ceil_div(index_t(cfg.m), index_t(rows)); }
  TENON_DEVICE index count_of_queries() const { return index(index_t(cfg.m)); }
  TENON_DEVICE index count_of_keys() const { return index(index_t(cfg.n)); }
  /// How many keys the queries before `m` see.
  TENON_DEVICE index visible_keys(index origin, index m) const {
    return Order::template visible_keys<Config::causal>(origin, m, count_of_queries(),
                                                        count_of_keys());
  }
  TENON_DEVICE static int my_row() { return (warp() & 3) * 16 + lane() / 4; }

  /// Queries of a head are neighbours, for they read the same keys; where some see fewer keys than
  /// others, the longest of all heads come first.
  TENON_DEVICE block_of_queries my_part() const {
    block_of_queries p;
    const index q_tiles = index(query_tiles()), block = index(block_x());
    const index heads = index(volume(cfg.batch));
    unravel<rank - 2>(cfg.batch, is_causal ? block % heads : block / q_tiles, p.at);
    p.at[rank - 2] = (is_causal ? q_tiles - 1 - block / heads : block % q_tiles) * rows;
    if constexpr (Order::has_first) {
      const auto &view = order.first.head;
      p.origin = index(view.data[offset(view.strides, p.at)]);
    }
    p.first_tile = int(Order::first_key(p.origin, p.first_query()) / index(keys));
    const int end = int(ceil_div(visible_keys(p.origin, p.first_query() + rows), index(keys)));
    p.tiles = max_of(end - p.first_tile, 0);
    return p;
  }

  /// `count` rows of `columns` elements, in boxes of box_rows rows of 64 columns. What leading
  /// dimensions share is there once.
  template <class View>
  status encode(tensor_map &to, const View &from, index_t count, index_t columns,
                int box_rows) const {
    constexpr index_t size = sizeof(element);
    tensor_box box = {from.data,
                      detail::tensor_element_of<element>(),
                      rank,
                      {columns, max_of(count, index_t(1)), 1, 1, 1},
                      {size, from.strides.template get<rank - 2>() * size, 0, 0, 0},
                      {64, box_rows, 1, 1, 1},
                      128};
    encode_leading<0>(box, from.strides, cfg.batch);
    return cuda::encode(to, box);
  }
  template <int I, class Strides, class Extents>
  static void encode_leading(tensor_box &box, const Strides &strides, const Extents &extents) {
    if constexpr (I < rank - 2) {
      const index_t stride = index_t(strides.template get<I>());
      box.extent[rank - 1 - I] = stride == 0 ? 1 : index_t(extents.template get<I>());
      box.stride[rank - 1 - I] = stride * index_t(sizeof(element));
      encode_leading<I + 1>(box, strides, extents);
    }
  }

  /// Brings the rows from `row` on of the block's head, all columns.
  template <int Blocks, int BoxRows, class View>
  TENON_DEVICE static void load(unsigned char *to, const tensor_map &map, ptx::mbarrier &done,
                                const View &from, const block_of_queries &p, index row) {
    int at[rank];
    at[1] = int(row);
    place<0>(at, from.strides, p);
    TENON_UNROLL
    for (int i = 0; i < Blocks; ++i) {
      at[0] = 64 * i;
      ptx::tensor_copy_tiled::load(to + i * BoxRows * 128, map, done, at);
    }
  }
  template <int I, class Strides>
  TENON_DEVICE static void place(int (&at)[rank], const Strides &strides,
                                 const block_of_queries &p) {
    if constexpr (I < rank - 2) {
      at[rank - 1 - I] = index_t(strides.template get<I>()) == 0 ? 0 : int(p.at[I]);
      place<I + 1>(at, strides, p);
    }
  }

  TENON_DEVICE void produce(const buffers &to, const block_of_queries &p) const {
    barriers &b = to.bar();
    b.q.arrive_expecting(shape.query_bytes());
    load<shape.depth_blocks(), rows>(to.q(), map_q, b.q, q, p, p.first_query());
    int stage = 0, parity = 1;
    TENON_NO_UNROLL
    for (int t = 0; t < p.tiles; ++t) {
      const index first = p.first_key(t);
      b.empty_k[stage].wait(parity);
      b.full_k[stage].arrive_expecting(shape.key_bytes());
      load<shape.depth_blocks(), keys>(to.k(stage), map_k, b.full_k[stage], k, p, first);
      b.empty_v[stage].wait(parity);
      b.full_v[stage].arrive_expecting(shape.value_bytes());
      load<shape.width_blocks(), keys>(to.v(stage), map_v, b.full_v[stage], v, p, first);
      if (++stage == stages)
        stage = 0, parity ^= 1;
    }
  }

  TENON_DEVICE static void release(ptx::mbarrier &empty) {
    if (lane() == 0)
      empty.arrive();
  }
  TENON_DEVICE static void my_turn(int group) {
    if constexpr (Config::turns)
      ptx::named_barrier::sync(1 + group, 256);
  }
  /// Nobody waits for the last turn of the last.
  TENON_DEVICE static void next_turn(int group, bool last) {
    if constexpr (Config::turns)
      if (!(last && group == warpgroups - 1))
        ptx::named_barrier::arrive(1 + (group + 1) % warpgroups, 256);
  }

  TENON_DEVICE static void multiply_keys(float (&score)[keys / 2], const buffers &from, int part,
                                         int stage) {
    const uint64_t q_at = tile::descriptor(from.q() + part * 64 * 128);
    const uint64_t k_at = tile::descriptor(from.k(stage));
    TENON_UNROLL
    for (int i = 0; i < depth / 16; ++i)
      products_qk::multiply(score, tile::advance(q_at, i / 4 * rows * 128 + i % 4 * 32),
                            tile::advance(k_at, i / 4 * keys * 128 + i % 4 * 32), i > 0);
  }
  TENON_DEVICE static void multiply_values(state &s, const buffers &from, int stage) {
    const uint64_t v_at = tile::descriptor(from.v(stage), keys * 128);
    TENON_UNROLL
    for (int i = 0; i < keys / 16; ++i) {
      const unsigned four[4] = {s.weight[4 * i], s.weight[4 * i + 1], s.weight[4 * i + 2],
                                s.weight[4 * i + 3]};
      products_pv::multiply(s.sum, four, tile::advance(v_at, i * 16 * 128), true);
    }
  }

  /// Then it is on its way while products are computed: the lane's columns of a tile of keys.
  struct row_of_bias {
    float of[shares_bias() ? keys / 4 : 1];
  };
  /// Two neighbours of a row of the bias; those beyond the last key are whatever.
  template <class T> TENON_DEVICE void load_pair(float (&to)[2], const T *row, index key) const {
    if constexpr (bias_pairs) {
      T two[2];
      detail::load_words(two, row + min_of(key, count_of_keys() - 2));
      to[0] = load_element(two), to[1] = load_element(two + 1);
    } else {
      const index step = index(index_t(bias.head.strides.template get<rank - 1>()));
      TENON_UNROLL
      for (int i = 0; i < 2; ++i)
        to[i] = load_element(row + min_of(key + i, count_of_keys() - 1) * step);
    }
  }
  /// Where a query's row of what is added begins; of one that does not exist that of the last.
  template <class View>
  TENON_DEVICE auto row_at(const View &view, const block_of_queries &p, index query) const {
    index at[rank];
    TENON_UNROLL
    for (int i = 0; i < rank; ++i)
      at[i] = p.at[i];
    at[rank - 2] = min_of(query, count_of_queries() - 1);
    return view.data + offset(view.strides, at);
  }
  /// Of row r (0 or 1) of this lane, row0 being the warpgroup's first query.
  TENON_DEVICE auto row_of(const block_of_queries &p, index row0, int r) const {
    return row_at(bias.head, p, row0 + my_row() + 8 * r);
  }
  TENON_DEVICE void load_shared_bias(row_of_bias &to, const block_of_queries &p,
                                     index first) const {
    if constexpr (shares_bias()) {
      const auto row = row_of(p, 0, 0);
      TENON_UNROLL
      for (int j = 0; j < keys / 8; ++j) {
        float two[2];
        load_pair(two, row, first + 8 * j + 2 * (lane() % 4));
        to.of[2 * j] = two[0], to.of[2 * j + 1] = two[1];
      }
    }
  }
  TENON_DEVICE void add_bias(float (&score)[keys / 2], const row_of_bias &shared,
                             const parts &added, const block_of_queries &p, index row0,
                             index first) const {
    if constexpr (has_bias) {
      TENON_UNROLL
      for (int r = 0; r < 2; ++r) {
        TENON_UNROLL
        for (int j = 0; j < keys / 8; ++j) {
          float two[2];
          if constexpr (shares_bias())
            two[0] = shared.of[2 * j], two[1] = shared.of[2 * j + 1];
          else if constexpr (has_full_bias)
            load_pair(two, row_of(p, row0, r), first + 8 * j + 2 * (lane() % 4));
          added.template add<!has_full_bias>(two, r, j, first);
          TENON_UNROLL
          for (int i = 0; i < 2; ++i) {
            float &x = score[4 * j + 2 * r + i];
            x = mul_add(x, scale, two[i]);
          }
        }
      }
    }
  }

  /// Scores that the warpgroup's queries, from row0 on, do not see become -infinity.
  TENON_DEVICE void hide(float (&score)[keys / 2], const block_of_queries &p, index row0,
                         index first) const {
    if (first + keys <= visible_keys(p.origin, row0 + 1) &&
        first >= Order::first_key(p.origin, row0 + 63))
      return;
    TENON_UNROLL
    for (int r = 0; r < 2; ++r) {
      const index query = row0 + my_row() + 8 * r;
      const int left = int(visible_keys(p.origin, query + 1) - first) - 2 * (lane() % 4);
      const int gone = int(Order::first_key(p.origin, query) - first) - 2 * (lane() % 4);
      TENON_UNROLL
      for (int j = 0; j < keys / 8; ++j) {
        TENON_UNROLL
        for (int i = 0; i < 2; ++i)
          if (8 * j + i >= left || (Order::has_window && 8 * j + i < gone))
            score[4 * j + 2 * r + i] = -float(INFINITY);
      }
    }
  }
  /// Of the last tile, values behind the keys that hold something become zero: their weights are.
  /// Each warpgroup does so for what it multiplies itself.
  TENON_DEVICE void clear_values(const buffers &of, const block_of_queries &p, int group,
                                 const position &at) const {
    if constexpr (Order::has_first) {
      const index first = p.first_key(0);
      const int held = int(min_of(p.origin + count_of_queries(), count_of_keys()) - first);
      if (held >= keys || p.origin + count_of_queries() >= count_of_keys())
        return; // what lies behind the last key is zero
      of.bar().full_v[at.stage].wait(at.parity);
      constexpr int words = int(shape.width_blocks()) * 8; // of a row, of 16 bytes
      for (int i = max_of(held, 0) * words + thread() % 128; i < keys * words; i += 128)
        *reinterpret_cast<word16 *>(of.v(at.stage) + i % words / 8 * keys * 128 + i / words * 128 +
                                    i % 8 * 16) = {};
      ptx::proxy_fence::shared();
      ptx::named_barrier::sync(11 + group, 128);
    }
  }

  /// What scores are relative to: a number even where every score so far is -infinity.
  TENON_DEVICE static float relative_to(float largest) {
    return largest == -float(INFINITY) ? 0.0f : largest;
  }
  /// The largest score of row r (0 or 1) of this lane, by two chains: the latency of one would
  /// show.
  TENON_DEVICE static float largest_of(const float (&score)[keys / 2], int r) {
    float x = fmaxf(score[2 * r], score[2 * r + 1]), z = fmaxf(score[4 + 2 * r], score[5 + 2 * r]);
    TENON_UNROLL
    for (int j = 2; j < keys / 8; j += 2) {
      x = fmaxf(fmaxf(x, score[4 * j + 2 * r]), score[4 * j + 2 * r + 1]);
      z = fmaxf(fmaxf(z, score[4 * j + 4 + 2 * r]), score[4 * j + 5 + 2 * r]);
    }
    x = fmaxf(x, z);
    x = fmaxf(x, shuffle_xor(x, 1));
    return fmaxf(x, shuffle_xor(x, 2));
  }

  /// Scores become weights relative to the largest of their row so far.
  TENON_DEVICE void weigh(state &s, float (&score)[keys / 2]) const {
    float largest[2];
    TENON_UNROLL
    for (int r = 0; r < 2; ++r)
      largest[r] = fmaxf(largest_of(score, r), s.largest[r]);
    s.grown = true;
    if constexpr (Config::turns)
      s.grown = any_lane(!((largest[0] - s.largest[0]) * unit() <= 8.0f &&
                           (largest[1] - s.largest[1]) * unit() <= 8.0f));
    TENON_UNROLL
    for (int r = 0; r < 2; ++r) {
      if (s.grown) {
        s.factor[r] = ptx::exp2_approximate::of((s.largest[r] - relative_to(largest[r])) * unit());
        s.largest[r] = largest[r];
        s.total[r] *= s.factor[r];
      }
      const float from = relative_to(s.largest[r]), scaled = from * unit();
      float total[2] = {};
      TENON_UNROLL
      for (int j = 0; j < keys / 8; ++j) {
        TENON_UNROLL
        for (int i = 0; i < 2; ++i) {
          float &x = score[4 * j + 2 * r + i];
          // The lowest float may be a bias: times log2(e) it would be -infinity.
          x = ptx::exp2_approximate::of(has_bias ? (x - from) * unit()
                                                 : mul_add(x, unit(), -scaled));
          total[i] += x;
        }
      }
      s.total[r] += total[0] + total[1];
    }
  }
  /// Sums of weights are computed before what follows: ptxas moves the wait for products ahead of
  /// all that does not depend on it, and nothing would run meanwhile. The store never happens.
  TENON_DEVICE static void anchor(const float (&total)[2]) {
#if defined(__CUDA_ARCH__)
    asm volatile("{\n.reg .pred p;\nsetp.lt.f32 p, %0, %1;\n@p st.shared.f32 [%2], %0;\n}" ::"f"(
                     total[0] + total[1]),
                 "f"(-1.0f), "r"(0)
                 : "memory");
#else
    (void)total;
#endif
  }
  TENON_DEVICE static void round(state &s, const float (&score)[keys / 2]) {
    TENON_UNROLL
    for (int i = 0; i < keys / 4; ++i)
      s.weight[i] = pair::of(score[2 * i], score[2 * i + 1]);
  }
  TENON_DEVICE static void rescale(state &s) {
    if (Config::turns && !s.grown)
      return;
    TENON_UNROLL
    for (int j = 0; j < width / 8; ++j) {
      TENON_UNROLL
      for (int i = 0; i < 4; ++i)
        s.sum[4 * j + i] *= s.factor[i / 2];
    }
  }

  TENON_DEVICE void consume(const buffers &from, const block_of_queries &p, int group) const {
    const int team = group / in_team, part = group % in_team;
    const index row0 = p.first_query() + 64 * part;
    state s;
    TENON_UNROLL
    for (int i = 0; i < width / 2; ++i)
      s.sum[i] = 0;
    TENON_UNROLL
    for (int r = 0; r < 2; ++r)
      s.largest[r] = -float(INFINITY), s.total[r] = 0, s.factor[r] = 1;
    s.added.begin(
        bias,
        [&](const auto &view, int n) { return row_at(view, p, row0 + (warp() & 3) * 16 + n); },
        reinterpret_cast<unsigned *>(from.shared + shape.staged_at()) +
            16 * parts::words * uniform_warp());
    if constexpr (parts::words > 0)
      sync_warp();
    from.bar().q.wait(0);
    // The first turn is the first's.
    if (Config::turns && group == warpgroups - 1 && p.tiles > 0)
      ptx::named_barrier::arrive(1, 256);
    if constexpr (Config::overlap)
      attend_overlapped(s, from, p, group, row0);
    else
      attend_plainly(s, from, p, group, row0);
    TENON_UNROLL
    for (int r = 0; r < 2; ++r) {
      s.total[r] += shuffle_xor(s.total[r], 1);
      s.total[r] += shuffle_xor(s.total[r], 2);
    }
    if constexpr (teams > 1)
      join(s, from, group);
    if (team == 0)
      store(s, from, p, part, row0);
  }

  /// Scores of tile t become weights. `products` issues the products of the tile before, the
  /// Pending group that runs meanwhile.
  template <int Pending, class Products>
  TENON_DEVICE void attend_tile(state &s, float (&score)[keys / 2], const buffers &from,
                                const block_of_queries &p, int t, const position &at, int group,
                                index row0, Products products) const {
    const index first = p.first_key(t);
    row_of_bias added;
    load_shared_bias(added, p, first);
    s.added.prepare(bias, first);
    from.bar().full_k[at.stage].wait(at.parity);
    my_turn(group);
    if constexpr (Pending > 0) {
      ptx::wgmma_group::pin(s.sum);
      ptx::wgmma_group::pin(s.weight);
    }
    ptx::wgmma_group::fence();
    multiply_keys(score, from, group % in_team, at.stage);
    ptx::wgmma_group::commit();
    products();
    next_turn(group, t + teams >= p.tiles);
    ptx::wgmma_group::wait<Pending>();
    ptx::wgmma_group::pin(score);
    release(from.bar().empty_k[at.stage]);
    add_bias(score, added, s.added, p, row0, first);
    hide(score, p, row0, first);
    weigh(s, score);
  }
  /// Issues the products of weights and values, which a wait completes.
  TENON_DEVICE static void issue_values(state &s, const buffers &from, const position &at) {
    from.bar().full_v[at.stage].wait(at.parity);
    ptx::wgmma_group::fence(); // after a wait in a loop; ptxas would put it there
    multiply_values(s, from, at.stage);
    ptx::wgmma_group::commit();
  }
  TENON_DEVICE static void add_values(state &s, const buffers &from, const position &at) {
    from.bar().full_v[at.stage].wait(at.parity);
    ptx::wgmma_group::pin(s.sum);
    ptx::wgmma_group::pin(s.weight);
    ptx::wgmma_group::fence();
    multiply_values(s, from, at.stage);
    ptx::wgmma_group::commit();
    ptx::wgmma_group::wait<0>();
    ptx::wgmma_group::pin(s.sum);
  }

  TENON_DEVICE void attend_plainly(state &s, const buffers &from, const block_of_queries &p,
                                   int group, index row0) const {
    const int team = group / in_team;
    position at(team);
    TENON_NO_UNROLL
    for (int t = team; t < p.tiles; t += teams, at.skip()) {
      float score[keys / 2];
      attend_tile<0>(s, score, from, p, t, at, group, row0, [] {});
      if (t == 0)
        clear_values(from, p, group, at);
      rescale(s);
      round(s, score);
      add_values(s, from, at);
      release(from.bar().empty_v[at.stage]);
    }
  }

  TENON_DEVICE void attend_overlapped(state &s, const buffers &from, const block_of_queries &p,
                                      int group, index row0) const {
    const int team = group / in_team;
    if (team >= p.tiles)
      return;
    position at(team);
    {
      float score[keys / 2];
      attend_tile<0>(s, score, from, p, team, at, group, row0, [] {});
      if (team == 0)
        clear_values(from, p, group, at);
      round(s, score);
    }
    position before = at;
    at.skip();
    TENON_NO_UNROLL
    for (int t = team + teams; t < p.tiles; t += teams, before = at, at.skip()) {
      float score[keys / 2];
      attend_tile<1>(s, score, from, p, t, at, group, row0, [&] { issue_values(s, from, before); });
      anchor(s.total);
      ptx::wgmma_group::wait<0>();
      ptx::wgmma_group::pin(s.sum);
      ptx::wgmma_group::pin(s.weight);
      release(from.bar().empty_v[before.stage]);
      round(s, score);
      rescale(s);
    }
    add_values(s, from, before);
  }

  /// Team 0 adds what the others found. Nobody reads keys and values any more.
  TENON_DEVICE void join(state &s, const buffers &at, int group) const {
    constexpr int sent = shape.sent();
    float *const memory = reinterpret_cast<float *>(at.k(0)) + thread() % 128;
    ptx::named_barrier::sync(1, 128 * warpgroups);
    if (group >= in_team) {
      float *const to = memory + (group - in_team) * sent * 128;
      TENON_UNROLL
      for (int i = 0; i < width / 2; ++i)
        to[i * 128] = s.sum[i];
      TENON_UNROLL
      for (int r = 0; r < 2; ++r) {
        to[(width / 2 + r) * 128] = s.largest[r];
        to[(width / 2 + 2 + r) * 128] = s.total[r];
      }
    }
    ptx::named_barrier::sync(1, 128 * warpgroups);
    if (group >= in_team)
      return;
    TENON_UNROLL
    for (int other = 1; other < teams; ++other) {
      const float *const from = memory + (other * in_team + group - in_team) * sent * 128;
      float by[2];
      TENON_UNROLL
      for (int r = 0; r < 2; ++r) {
        const float theirs = from[(width / 2 + r) * 128], largest = fmaxf(s.largest[r], theirs);
        const float zero = relative_to(largest);
        s.factor[r] = ptx::exp2_approximate::of((s.largest[r] - zero) * unit());
        by[r] = ptx::exp2_approximate::of((theirs - zero) * unit());
        s.total[r] = s.total[r] * s.factor[r] + from[(width / 2 + 2 + r) * 128] * by[r];
        s.largest[r] = largest;
      }
      TENON_UNROLL
      for (int i = 0; i < width / 2; ++i)
        s.sum[i] = s.sum[i] * s.factor[i / 2 % 2] + from[i * 128] * by[i / 2 % 2];
    }
  }

  /// Divides sums by those of weights and stores them, by way of the warp's queries.
  TENON_DEVICE void store(const state &s, const buffers &at, const block_of_queries &p, int part,
                          index row0) const {
    float by[2];
    bool defined[2];
    TENON_UNROLL
    for (int r = 0; r < 2; ++r) {
      by[r] = index_t(cfg.n) > 0 ? 1.0f / s.total[r] : 0.0f;
      defined[r] = !Config::zero_undefined || s.total[r] > 0.0f;
    }
    ptx::named_barrier::sync(8 + part, 128); // no warp reads queries any more
    unsigned char *const mine = at.q() + (64 * part + (warp() & 3) * 16) * 128;
    const auto two = [&](int i, int r) {
      return defined[r] ? pair::of(s.sum[i] * by[r], s.sum[i + 1] * by[r]) : 0u;
    };
    TENON_UNROLL
    for (int j = 0; j < width / 16; ++j) {
      const int row = lane() % 16, run = (2 * j % 8 + lane() / 16) ^ (row % 8);
      const unsigned four[4] = {two(8 * j, 0), two(8 * j + 2, 1), two(8 * j + 4, 0),
                                two(8 * j + 6, 1)};
      ptx::stmatrix_x4::store(mine + j / 4 * rows * 128 + row * 128 + run * 16, four);
    }
    sync_warp();
    store_rows(mine, p, row0 + (warp() & 3) * 16);
  }
  /// The warp's rows, the first of which is query `first`.
  TENON_DEVICE void store_rows(const unsigned char *from, const block_of_queries &p,
                               index first) const {
    constexpr int runs = width / 8;
    index at[rank];
    TENON_UNROLL
    for (int i = 0; i < rank; ++i)
      at[i] = p.at[i];
    at[rank - 2] = first;
    TENON_UNROLL
    for (int i = 0; i < 16 * runs / 32; ++i) {
      const int n = i * 32 + lane(), row = n / runs, run = n % runs;
      if (first + row >= count_of_queries() || 8 * run >= e)
        continue;
      store_run_of(at, row, 8 * run,
                   *reinterpret_cast<const word16 *>(from + run / 8 * rows * 128 + row * 128 +
                                                     ((run % 8) ^ (row % 8)) * 16));
    }
  }
  /// Of the warp's row `row`, from column `column` on.
  TENON_DEVICE void store_run_of(const index (&at)[rank], int row, int column,
                                 const word16 &w) const {
    if constexpr (detail::has_attention_body<Y>) {
      element x[8];
      memcpy(static_cast<void *>(x), &w, sizeof(x));
      float wide[8];
      index to[rank];
      TENON_UNROLL
      for (int i = 0; i < 8; ++i)
        wide[i] = load_element(x + i);
      TENON_UNROLL
      for (int i = 0; i < rank; ++i)
        to[i] = at[i];
      to[rank - 2] += row;
      to[rank - 1] = column;
      y.store(to, min_of(8, e - column), wide);
    } else {
      const auto step = y.strides.template get<rank - 1>();
      const index stride = index(index_t(y.strides.template get<rank - 2>()));
      auto *const there = y.data + offset(y.strides, at) + row * stride + column * index_t(step);
      if (detail::is_unit<decltype(step)> && column + 8 <= e && detail::is_aligned<16>(there)) {
        *reinterpret_cast<word16 *>(there) = w;
      } else {
        element x[8];
        memcpy(static_cast<void *>(x), &w, sizeof(x));
        TENON_UNROLL
        for (int c = 0; c < 8; ++c)
          if (column + c < e)
            there[c * index_t(step)] = x[c];
      }
    }
  }
};

template <class Config, class Q, class K, class V, class Bias, class Y, class Order = plain_order>
attention_sm90_kernel<Config, Q, K, V, Bias, Y, Order>
attention_sm90(Config cfg, float scale, Q q, K k, V v, Bias bias, Y y, Order order = {}) {
  using kernel = attention_sm90_kernel<Config, Q, K, V, Bias, Y, Order>;
  return {cfg, kernel::has_bias ? scale : scale * kernel::log2e, q, k, v, bias, y, order};
}

} // namespace cuda
} // namespace tenon

#endif
