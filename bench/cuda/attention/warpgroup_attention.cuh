// Defines `warpgroup_attention`: forward attention of fp16 and bf16 by warpgroups (sm_90a), with
// many ways to overlap softmax and products, for measuring which one is fast. A study; see
// README.md.
//
//   y[b, h, m, :] = sum over n of weight[m, n] * v[b, h / group, n, :], where weight[m, ...] is the
//   softmax of scale * (q[b, h, m, :] . k[b, h / group, n, :]) over the keys n that m sees
//
// Algorithm: a block takes `rows` queries of one head. One thread of its last warpgroup brings the
// queries, then tiles of `keys` keys and of their values, the last first, into rings of `stages`
// buffers by the copy engine. `consumers` warpgroups multiply 64 queries each; `teams` of them
// share the same queries, take every teams-th tile and join in the end. Weights stay in registers.
//
//   overlap   products of the next tile's scores run while this tile's weights and values are
//             multiplied, softmax of the next tile while the latter runs
//   turns     warpgroups issue their products in turn, so that one multiplies in another's softmax
//   emulated  so many of each 8 exponentials are polynomials on the multipliers
//   lazy      sums are scaled only when the largest score has grown by more than 2^8
//
// Shared memory: queries [d / 64][rows][64], keys and values [stages][d / 64][keys][64], swizzled
// as the copy engine does it; barriers.
#pragma once

#include "cuda/ptx/elect.cuh"
#include "cuda/ptx/exp2.cuh"
#include "cuda/ptx/griddepcontrol.cuh"
#include "cuda/ptx/named_barrier.cuh"
#include "cuda/ptx/proxy_fence.cuh"
#include "cuda/ptx/round_pair.cuh"
#include "cuda/ptx/setmaxnreg.cuh"
#include "cuda/ptx/tensor_copy.cuh"
#include "cuda/ptx/wgmma.cuh"

namespace study {

using namespace tenon;
using namespace tenon::cuda;

/// What a launch is given. Strides of y in elements; columns are contiguous.
struct attention_arguments {
  tensor_map q, k, v; // (d, token, head, batch)
  void *y;
  long y_token, y_head, y_batch;
  int heads, group, batch, m, n, d;
  int offset; // causal: query m sees the keys up to m + offset
  float scale;
};

/// The members that make a variant.
template <class T, int D, int Consumers, int Teams, int Keys, int Stages, bool Overlap, bool Turns,
          bool Causal, int Emulated = 0, bool Lazy = false, int BlocksPerSm = 1>
struct attention_variant {
  using element = T;
  static constexpr int d = D, consumers = Consumers, teams = Teams, keys = Keys, stages = Stages;
  static constexpr bool overlap = Overlap, turns = Turns, causal = Causal, lazy = Lazy;
  static constexpr int emulated = Emulated, blocks_per_sm = BlocksPerSm;
};

TENON_DEVICE void named_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
/// Four 8 x 8 matrices of 16-bit elements to shared memory; lane l names row l % 8 of matrix l / 8.
TENON_DEVICE void store_matrices(unsigned address, unsigned a, unsigned b, unsigned c, unsigned d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
               "r"(a), "r"(b), "r"(c), "r"(d)
               : "memory");
}
/// 2^x for -126 <= x <= 127 within 1e-4 of it, on the multipliers; below as for -126.
TENON_DEVICE float exp2_polynomial(float x) {
  const float magic = 12582912.0f; // 1.5 * 2^23: the sum's last bits are x, rounded
  x = fmaxf(x, -126.0f);
  const float t = x + magic, f = x - (t - magic);
  float p = fmaf(0.05517167f, f, 0.24261112f);
  p = fmaf(p, f, 0.69326099f);
  p = fmaf(p, f, 0.99992807f);
  return __uint_as_float(__float_as_uint(p) + (__float_as_uint(t) << 23));
}

/// Sums of weights are computed before what follows: ptxas moves the wait for products ahead of all
/// that does not depend on it, and nothing would run meanwhile.
TENON_DEVICE void anchor(const float (&total)[2]) {
  asm volatile("{\n.reg .pred p;\nsetp.lt.f32 p, %0, %1;\n@p st.shared.f32 [%2], %0;\n}" ::"f"(
                   total[0] + total[1]),
               "f"(-1.0f), "r"(0)
               : "memory");
}

template <class V> struct warpgroup_attention {
  using T = typename V::element;
  static constexpr int d = V::d, consumers = V::consumers, teams = V::teams, keys = V::keys;
  static constexpr int stages = V::stages, blocks = (d + 63) / 64, rows = 64 * consumers / teams;
  static constexpr int threads = 128 * (consumers + 1);
  static constexpr int q_bytes = blocks * rows * 128, tile_bytes = blocks * keys * 128;
  struct barriers {
    ptx::mbarrier q, full_k[stages], full_v[stages], empty_k[stages], empty_v[stages];
  };
  static constexpr int shared_bytes =
      q_bytes + 2 * stages * tile_bytes + int(sizeof(barriers)) + 1024;

  static constexpr int even_share = min_of(65536 / V::blocks_per_sm / threads / 8 * 8, 255 / 8 * 8);
  static constexpr int producer_registers = 24;
  static constexpr int consumer_registers =
      min_of(240, (even_share + (even_share - producer_registers) / consumers) / 8 * 8);

  using products_qk = ptx::wgmma_shared<T, keys>;
  using products_pv = ptx::wgmma_registers<T, d, true>;
  using tile = ptx::wgmma_tile<128>;
  using pair = ptx::round_pair<T>;

  unsigned char *shared;
  const attention_arguments &a;
  int head, image, m0, tiles;

  TENON_DEVICE unsigned char *q() const { return shared; }
  TENON_DEVICE unsigned char *k(int stage) const { return shared + q_bytes + stage * tile_bytes; }
  TENON_DEVICE unsigned char *v(int stage) const { return k(stages + stage); }
  TENON_DEVICE barriers &bar() const { return *reinterpret_cast<barriers *>(k(2 * stages)); }

  TENON_DEVICE static void run(const attention_arguments &a, unsigned char *memory) {
    unsigned char *shared = memory + (-ptx::shared_address(memory) & 1023);
    const int m_tiles = ceil_div(a.m, rows), all_heads = a.heads * a.batch;
    const int of_head = V::causal ? block_x() % all_heads : block_x() / m_tiles;
    const int m_tile = V::causal ? m_tiles - 1 - block_x() / all_heads : block_x() % m_tiles;
    const int m0 = m_tile * rows;
    const int visible = V::causal ? max_of(0, min_of(a.n, m0 + rows + a.offset)) : a.n;
    warpgroup_attention self{ptx::opaque(shared), a,  of_head % a.heads,
                             of_head / a.heads,   m0, ceil_div(visible, keys)};
    const int group = uniform_warp() / 4;
    if (uniform_warp() == 4 * consumers && ptx::elect::one()) {
      ptx::prefetch_tensor_map::hint(a.q);
      ptx::prefetch_tensor_map::hint(a.k);
      ptx::prefetch_tensor_map::hint(a.v);
      self.bar().q.init(1);
      for (int s = 0; s < stages; ++s) {
        self.bar().full_k[s].init(1);
        self.bar().full_v[s].init(1);
        self.bar().empty_k[s].init(4 * consumers / teams);
        self.bar().empty_v[s].init(4 * consumers / teams);
      }
      ptx::mbarrier::fence_init();
    }
    sync_block();
    if (group == consumers) {
      ptx::setmaxnreg<producer_registers>::release();
      if (uniform_warp() == 4 * consumers && ptx::elect::one())
        self.produce();
    } else {
      ptx::setmaxnreg<consumer_registers>::acquire();
      self.consume(group);
    }
  }

  TENON_DEVICE void produce() const {
    ptx::griddepcontrol::wait();
    ptx::griddepcontrol::launch_dependents();
    barriers &b = bar();
    b.q.arrive_expecting(q_bytes);
    for (int i = 0; i < blocks; ++i)
      ptx::tensor_copy_tiled::load(q() + i * rows * 128, a.q, b.q, {64 * i, m0, head, image});
    const int key_head = head / a.group;
    int stage = 0, parity = 1;
    TENON_NO_UNROLL
    for (int t = 0; t < tiles; ++t) {
      const int n0 = (tiles - 1 - t) * keys;
      b.empty_k[stage].wait(parity);
      b.full_k[stage].arrive_expecting(tile_bytes);
      for (int i = 0; i < blocks; ++i)
        ptx::tensor_copy_tiled::load(k(stage) + i * keys * 128, a.k, b.full_k[stage],
                                     {64 * i, n0, key_head, image});
      b.empty_v[stage].wait(parity);
      b.full_v[stage].arrive_expecting(tile_bytes);
      for (int i = 0; i < blocks; ++i)
        ptx::tensor_copy_tiled::load(v(stage) + i * keys * 128, a.v, b.full_v[stage],
                                     {64 * i, n0, key_head, image});
      if (++stage == stages)
        stage = 0, parity ^= 1;
    }
  }

  /// Where a consumer is in the ring: its tiles are every teams-th.
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

  struct state {
    float sum[d / 2];           // of values, as wgmma leaves them
    float largest[2], total[2]; // of rows lane / 4 and lane / 4 + 8; in units of products
    float factor[2];            // by which the sums have to be multiplied
    bool grown;                 // they have to
    unsigned weight[keys / 4];
  };

  TENON_DEVICE void multiply_keys(float (&score)[keys / 2], uint64_t q_at, int stage) const {
    const uint64_t k_at = tile::descriptor(k(stage));
    TENON_UNROLL
    for (int i = 0; i < d / 16; ++i)
      products_qk::multiply(score, tile::advance(q_at, i / 4 * rows * 128 + i % 4 * 32),
                            tile::advance(k_at, i / 4 * keys * 128 + i % 4 * 32), i > 0);
  }
  TENON_DEVICE void multiply_values(state &s, int stage) const {
    const uint64_t v_at = tile::descriptor(v(stage), keys * 128);
    TENON_UNROLL
    for (int i = 0; i < keys / 16; ++i) {
      const unsigned four[4] = {s.weight[4 * i], s.weight[4 * i + 1], s.weight[4 * i + 2],
                                s.weight[4 * i + 3]};
      products_pv::multiply(s.sum, four, tile::advance(v_at, i * 16 * 128), true);
    }
  }

  /// Scores that the warpgroup's queries do not see become -infinity.
  TENON_DEVICE void hide(float (&score)[keys / 2], int row0, int n0) const {
    const int first = V::causal ? row0 + a.offset + 1 : a.n;
    if (n0 + keys <= min_of(a.n, first))
      return;
    TENON_UNROLL
    for (int r = 0; r < 2; ++r) {
      const int row = row0 + (warp() & 3) * 16 + lane() / 4 + 8 * r;
      const int visible = V::causal ? min_of(a.n, row + a.offset + 1) : a.n;
      const int left = visible - n0 - 2 * (lane() % 4);
      TENON_UNROLL
      for (int j = 0; j < keys / 8; ++j) {
        TENON_UNROLL
        for (int i = 0; i < 2; ++i)
          if (8 * j + i >= left)
            score[4 * j + 2 * r + i] = -INFINITY;
      }
    }
  }

  TENON_DEVICE void softmax(state &s, float (&score)[keys / 2]) const {
    const float scale = a.scale;
    float largest[2];
    TENON_UNROLL
    for (int r = 0; r < 2; ++r) {
      // Two chains of maxima: latency of one would show.
      float x = fmaxf(score[2 * r], score[2 * r + 1]),
            y = fmaxf(score[4 + 2 * r], score[5 + 2 * r]);
      TENON_UNROLL
      for (int j = 2; j < keys / 8; j += 2) {
        x = fmaxf(fmaxf(x, score[4 * j + 2 * r]), score[4 * j + 2 * r + 1]);
        y = fmaxf(fmaxf(y, score[4 * j + 4 + 2 * r]), score[4 * j + 5 + 2 * r]);
      }
      x = fmaxf(x, y);
      x = fmaxf(x, shuffle_xor(x, 1));
      x = fmaxf(x, shuffle_xor(x, 2));
      largest[r] = fmaxf(x, s.largest[r]);
    }
    bool grown = true;
    if constexpr (V::lazy)
      grown = __any_sync(full_warp, !((largest[0] - s.largest[0]) * scale <= 8.0f &&
                                      (largest[1] - s.largest[1]) * scale <= 8.0f));
    s.grown = grown;
    TENON_UNROLL
    for (int r = 0; r < 2; ++r) {
      if (grown) {
        const float from = largest[r] == -INFINITY ? 0.0f : largest[r];
        s.factor[r] = ptx::exp2_approximate::of((s.largest[r] - from) * scale);
        s.largest[r] = largest[r];
        s.total[r] *= s.factor[r];
      }
      const float from = s.largest[r] == -INFINITY ? 0.0f : s.largest[r] * scale;
      float total[2] = {};
      TENON_UNROLL
      for (int j = 0; j < keys / 8; ++j) {
        TENON_UNROLL
        for (int i = 0; i < 2; ++i) {
          float &x = score[4 * j + 2 * r + i];
          const float exponent = fmaf(x, scale, -from);
          if (V::emulated > 0 && (2 * j + i) % 8 >= 8 - V::emulated)
            x = exp2_polynomial(exponent);
          else
            x = ptx::exp2_approximate::of(exponent);
          total[i] += x;
        }
      }
      s.total[r] += total[0] + total[1];
    }
  }
  TENON_DEVICE static void round(state &s, const float (&score)[keys / 2]) {
    TENON_UNROLL
    for (int i = 0; i < keys / 4; ++i)
      s.weight[i] = pair::of(score[2 * i], score[2 * i + 1]);
  }
  TENON_DEVICE static void rescale(state &s) {
    if (V::lazy && !s.grown)
      return;
    TENON_UNROLL
    for (int j = 0; j < d / 8; ++j) {
      TENON_UNROLL
      for (int i = 0; i < 4; ++i)
        s.sum[4 * j + i] *= s.factor[i / 2];
    }
  }
  TENON_DEVICE static void release(ptx::mbarrier &empty) {
    if (lane() == 0)
      empty.arrive();
  }

  TENON_DEVICE void consume(int group) const {
    constexpr int in_team = consumers / teams;
    const int team = group / in_team, row0 = m0 + 64 * (group % in_team);
    barriers &b = bar();
    const uint64_t q_at = tile::descriptor(q() + 64 * 128 * (group % in_team));
    state s;
    TENON_UNROLL
    for (int i = 0; i < d / 2; ++i)
      s.sum[i] = 0;
    s.largest[0] = s.largest[1] = -INFINITY;
    s.total[0] = s.total[1] = 0;
    s.factor[0] = s.factor[1] = 1;
    position at(team);
    b.q.wait(0);
    if constexpr (V::overlap)
      attend_overlapped(s, b, q_at, at, team, group, row0);
    else
      attend_plainly(s, b, q_at, at, team, group, row0);
    TENON_UNROLL
    for (int r = 0; r < 2; ++r) {
      s.total[r] += shuffle_xor(s.total[r], 1);
      s.total[r] += shuffle_xor(s.total[r], 2);
    }
    if constexpr (teams > 1) {
      join(s, group, team);
      if (team > 0)
        return;
    }
    store(s, group % in_team, row0);
  }

  TENON_DEVICE void my_turn(int group) const {
    if constexpr (V::turns)
      ptx::named_barrier::sync(1 + group, 256);
  }
  TENON_DEVICE void next_turn(int group, bool last) const {
    if constexpr (V::turns)
      if (!(last && group == consumers - 1))
        named_arrive(1 + (group + 1) % consumers, 256);
  }

  TENON_DEVICE void attend_plainly(state &s, barriers &b, uint64_t q_at, position at, int team,
                                   int group, int row0) const {
    static_assert(!V::turns || teams == 1, "all take as many turns");
    if (V::turns && group == consumers - 1 && tiles > 0)
      named_arrive(1, 256);
    TENON_NO_UNROLL
    for (int t = team; t < tiles; t += teams, at.skip()) {
      float score[keys / 2];
      b.full_k[at.stage].wait(at.parity);
      my_turn(group);
      ptx::wgmma_group::fence();
      multiply_keys(score, q_at, at.stage);
      ptx::wgmma_group::commit();
      next_turn(group, t + teams >= tiles);
      ptx::wgmma_group::wait<0>();
      ptx::wgmma_group::pin(score);
      release(b.empty_k[at.stage]);
      hide(score, row0, (tiles - 1 - t) * keys);
      softmax(s, score);
      rescale(s);
      round(s, score);
      b.full_v[at.stage].wait(at.parity);
      ptx::wgmma_group::pin(s.sum);
      ptx::wgmma_group::pin(s.weight);
      ptx::wgmma_group::fence();
      multiply_values(s, at.stage);
      ptx::wgmma_group::commit();
      ptx::wgmma_group::wait<0>();
      ptx::wgmma_group::pin(s.sum);
      release(b.empty_v[at.stage]);
    }
  }

  TENON_DEVICE void attend_overlapped(state &s, barriers &b, uint64_t q_at, position at, int team,
                                      int group, int row0) const {
    static_assert(!V::turns || teams == 1, "all take as many turns");
    if (team >= tiles)
      return;
    if (V::turns && group == consumers - 1)
      named_arrive(1, 256);
    {
      float score[keys / 2];
      b.full_k[at.stage].wait(at.parity);
      my_turn(group);
      ptx::wgmma_group::fence();
      multiply_keys(score, q_at, at.stage);
      ptx::wgmma_group::commit();
      next_turn(group, team + teams >= tiles);
      ptx::wgmma_group::wait<0>();
      ptx::wgmma_group::pin(score);
      release(b.empty_k[at.stage]);
      hide(score, row0, (tiles - 1 - team) * keys);
      softmax(s, score);
      round(s, score);
    }
    position before = at;
    at.skip();
    TENON_NO_UNROLL
    for (int t = team + teams; t < tiles; t += teams, before = at, at.skip()) {
      float score[keys / 2];
      b.full_k[at.stage].wait(at.parity);
      my_turn(group);
      ptx::wgmma_group::pin(s.sum);
      ptx::wgmma_group::pin(s.weight);
      ptx::wgmma_group::fence();
      multiply_keys(score, q_at, at.stage);
      ptx::wgmma_group::commit();
      b.full_v[before.stage].wait(before.parity);
      multiply_values(s, before.stage);
      ptx::wgmma_group::commit();
      next_turn(group, t + teams >= tiles);
      ptx::wgmma_group::wait<1>();
      ptx::wgmma_group::pin(score);
      release(b.empty_k[at.stage]);
      hide(score, row0, (tiles - 1 - t) * keys);
      softmax(s, score);
      anchor(s.total);
      ptx::wgmma_group::wait<0>();
      ptx::wgmma_group::pin(s.sum);
      ptx::wgmma_group::pin(s.weight);
      release(b.empty_v[before.stage]);
      round(s, score);
      rescale(s);
    }
    b.full_v[before.stage].wait(before.parity);
    ptx::wgmma_group::pin(s.sum);
    ptx::wgmma_group::pin(s.weight);
    ptx::wgmma_group::fence();
    multiply_values(s, before.stage);
    ptx::wgmma_group::commit();
    ptx::wgmma_group::wait<0>();
    ptx::wgmma_group::pin(s.sum);
  }

  /// Team 0 adds what the others found. Buffers are no longer read by anyone.
  TENON_DEVICE void join(state &s, int group, int team) const {
    constexpr int in_team = consumers / teams, each = d / 2 + 4;
    static_assert((teams - 1) * in_team * each * 512 <= 2 * stages * tile_bytes, "sums fit");
    float *const memory = reinterpret_cast<float *>(k(0)) + thread() % 128;
    ptx::named_barrier::sync(1, 128 * consumers);
    if (team > 0) {
      float *const to = memory + (group - in_team) * each * 128;
      TENON_UNROLL
      for (int i = 0; i < d / 2; ++i)
        to[i * 128] = s.sum[i];
      TENON_UNROLL
      for (int r = 0; r < 2; ++r) {
        to[(d / 2 + r) * 128] = s.largest[r];
        to[(d / 2 + 2 + r) * 128] = s.total[r];
      }
    }
    ptx::named_barrier::sync(1, 128 * consumers);
    if (team > 0)
      return;
    TENON_UNROLL
    for (int other = 1; other < teams; ++other) {
      const float *const from = memory + (other * in_team + group - in_team) * each * 128;
      float by[2];
      TENON_UNROLL
      for (int r = 0; r < 2; ++r) {
        const float theirs = from[(d / 2 + r) * 128], largest = fmaxf(s.largest[r], theirs);
        const float zero = largest == -INFINITY ? 0.0f : largest;
        s.factor[r] = ptx::exp2_approximate::of((s.largest[r] - zero) * a.scale);
        by[r] = ptx::exp2_approximate::of((theirs - zero) * a.scale);
        s.total[r] = s.total[r] * s.factor[r] + from[(d / 2 + 2 + r) * 128] * by[r];
        s.largest[r] = largest;
      }
      TENON_UNROLL
      for (int i = 0; i < d / 2; ++i)
        s.sum[i] = s.sum[i] * s.factor[i / 2 % 2] + from[i * 128] * by[i / 2 % 2];
    }
  }

  /// Results turn through the warp's queries in shared memory, so that rows leave in whole runs.
  TENON_DEVICE void store(state &s, int part, int row0) const {
    float by[2];
    TENON_UNROLL
    for (int r = 0; r < 2; ++r)
      by[r] = s.total[r] == 0 ? 0.0f : 1.0f / s.total[r]; // no key seen: 0
    ptx::named_barrier::sync(8 + part, 128);              // no warp reads queries any more
    unsigned char *const mine = q() + (64 * part + (warp() & 3) * 16) * 128;
    const unsigned base = ptx::shared_address(mine);
    TENON_UNROLL
    for (int j = 0; j < d / 16; ++j) {
      const int row = lane() % 16, run = (2 * j % 8 + lane() / 16) ^ (row % 8);
      const float *x = s.sum + 8 * j;
      store_matrices(base + unsigned(j / 4 * rows * 128 + row * 128 + run * 16),
                     pair::of(x[0] * by[0], x[1] * by[0]), pair::of(x[2] * by[1], x[3] * by[1]),
                     pair::of(x[4] * by[0], x[5] * by[0]), pair::of(x[6] * by[1], x[7] * by[1]));
    }
    sync_warp();
    constexpr int runs = d / 8;
    T *const to = static_cast<T *>(a.y) + image * a.y_batch + head * a.y_head;
    TENON_UNROLL
    for (int i = 0; i < 16 * runs / 32; ++i) {
      const int at = i * 32 + lane(), row = at / runs, column = at % runs;
      const int m = row0 + (warp() & 3) * 16 + row;
      const word16 w = *reinterpret_cast<const word16 *>(
          mine + column / 8 * rows * 128 + row * 128 + ((column % 8) ^ (row % 8)) * 16);
      if (m < a.m && 8 * column < a.d)
        *reinterpret_cast<word16 *>(to + m * a.y_token + 8 * column) = w;
    }
  }
};

template <class V>
__global__ void __launch_bounds__(warpgroup_attention<V>::threads, V::blocks_per_sm)
    attend(const __grid_constant__ attention_arguments a) {
  extern __shared__ unsigned char memory[];
  warpgroup_attention<V>::run(a, memory);
}

} // namespace study
