// Defines `conv_cluster_sm90` and `matmul_cluster_sm90`: contractions on Tensor Cores by wgmma,
// with the copy engine as loader (sm_90a only), for problems of few tiles, where the time from one
// kernel to the next counts and not throughput. fp16, bf16, f8e4m3, tf32 and bytes as for
// contract_wgmma/kernel.cuh; weights in two parts (packed_parts) make tf32 as exact as fp32.
//
// Algorithm: implicit GEMM. A block has one part of one tile: all of K, or one of `splits` parts of
// it. The last warp is the producer: one lane of it brings tiles of A and B (tensor_loader.cuh)
// into a ring of `stages` buffers; the warpgroups before it, `consumers` of them, share the tile's
// rows, or its columns where there are 64 rows, and multiply from there.
//
// The blocks that share a tile are a cluster. Each sends its sums to the block that finishes them,
// as they leave the registers: words that report to a barrier there, so that nobody waits for all.
// A block adds up what all have sent it in the order of their parts and takes it through the
// epilogue.
//
// Before the dependency wait: where everything lies, the barriers, the first steps' weights. After
// it the first instruction of the producer is a load.
//
// Shared memory: that of tensor_ring.cuh, what the prologue reads, then what is sent:
// [units of this block][splits][two words][threads that send here].
//
// Config: as for contract_simt/kernel.cuh. Schedule: tile_m, tile_n, tile_k, consumers, stages,
// splits; see contract_cluster_schedule. Operands and weights: as for contract_wgmma/kernel.cuh.
#ifndef TENON_RUNTIME_CUDA_CONTRACT_CLUSTER_KERNEL_CUH
#define TENON_RUNTIME_CUDA_CONTRACT_CLUSTER_KERNEL_CUH

#include "cuda/contract_cluster/geometry.h"
#include "cuda/ptx/cluster.cuh"
#include "cuda/ptx/elect.cuh"
#include "cuda/ptx/proxy_fence.cuh"
#include "cuda/warpgroup/epilogue.cuh"
#include "cuda/warpgroup/products.cuh"

namespace tenon {
namespace cuda {

/// A schedule's members, to derive a Config from.
template <int TileM, int TileN, int TileK, int Consumers, int Stages, int Splits = 1>
struct contract_cluster_schedule {
  static constexpr int tile_m = TileM, tile_n = TileN, tile_k = TileK, consumers = Consumers;
  static constexpr int stages = Stages, splits = Splits;
};

template <class Config, class Problem, class B, class Outs, class Ins, class Body,
          class Prologue = no_prologue, class PrologueIns = arguments<>>
struct contract_cluster_sm90_kernel {
  Problem problem;
  B b;
  Outs outs;
  Ins ins;
  Body body;
  Prologue prologue;
  PrologueIns prologue_ins;
  tensor_map map_a = {}, map_b = {};

  static constexpr int tile_m = Config::tile_m, tile_n = Config::tile_n, tile_k = Config::tile_k;
  static constexpr int stages = Config::stages, splits = Config::splits;
  static constexpr int consumers = Config::consumers;
  static constexpr contract_cluster_geometry shape = {tile_m, tile_n, consumers, splits};
  static constexpr int multiplying = shape.multiplying(), threads = shape.threads();
  static constexpr bool shares_columns = shape.shares_columns();
  static constexpr int rows = shape.rows(), blocks_m = rows / 64, columns = shape.columns();
  static constexpr int cluster_blocks = splits; // neighbours along x
  static_assert(rows % 64 == 0 && columns % 32 == 0 && columns <= 256, "tiles are whole blocks");
  static_assert(splits <= 8, "a cluster has 8 blocks at most");

  using operands = tensor_operands<Problem, B, tile_m, tile_n, tile_k, stages>;
  using loader_of_a = typename operands::loader_of_a;
  using loader_of_b = typename operands::loader_of_b;
  using element = typename operands::element;
  using ring = typename operands::ring;
  using begun = typename operands::begun;
  using mma = ptx::wgmma_shared<element, columns, !ring::a_tile::k_major, !ring::b_tile::k_major>;
  static_assert(tile_k % mma::k == 0, "tiles are whole steps");
  static_assert(!shares_columns || ring::b_tile::k_major || columns % 64 == 0,
                "columns begin where a pattern does");
  static_assert(blocks_m * columns * operands::sums_held <= 256, "sums fit in registers");
  /// The next kernel's block begins beside this one's.
  static constexpr int blocks_per_sm = blocks_m * columns * operands::sums_held <= 64 ? 2 : 1;
  using epilogue =
      warpgroup_epilogue<Problem, Outs, Ins, Body, columns, blocks_m, operands::sums_held>;
  using staged = staged_channels<PrologueIns>;

  /// What blocks of a tile send each other.
  static constexpr int units = shape.units(), receivers = shape.receivers(),
                       sending = shape.sending();
  static_assert(units == epilogue::units, "as the epilogue has them");

  TENON_FN static constexpr bool runs_on(target t) { return t.arch == 900 && t.specific; }
  TENON_FN int sent_at() const { return ring::bytes + staged::bytes(problem.prologue_channels()); }
  int shared_bytes() const { return sent_at() + int(shape.sent_bytes()); }
  grid blocks() const {
    return {index_t(ceil_div(problem.columns(), tile_n)) * splits, ceil_div(problem.rows(), tile_m),
            problem.slices()};
  }
  status complete() { return operands::encode(map_a, map_b, problem, b); }

  TENON_DEVICE begun prefetch(unsigned char *shared) const {
    const ring buffers{ptx::opaque(shared)};
    const block_part part = my_part();
    begun known = operands::begin(problem, part);
    if (uniform_warp() == producer_warp && ptx::elect::one()) {
      buffers.init(4 * consumers, 0);
      if constexpr (splits > 1) {
        buffers.all().sent.init(1);
        ptx::mbarrier::fence_init();
        buffers.all().sent.arrive_expecting(received(part.split) * splits * 32 * sending);
      }
      operands::prefetch(buffers, problem, b, map_a, map_b, known);
    }
    if constexpr (splits > 1)
      ptx::cluster::arrive(); // its barriers are ready
    sync_block();
    return known;
  }

  TENON_DEVICE void run(unsigned char *shared, const begun &known) const {
    if (uniform_warp() == producer_warp) {
      if (ptx::elect::one())
        produce({ptx::opaque(shared)}, known);
    } else {
      consume(shared, known.part);
    }
  }

private:
  static constexpr int producer_warp = 4 * consumers;

  TENON_DEVICE block_part my_part() const {
    const int steps = loader_of_a::steps(problem), split = block_x() % splits;
    return {block_y() * tile_m,     block_x() / splits * tile_n,  block_z(), split,
            steps * split / splits, steps * (split + 1) / splits, 0};
  }

  TENON_DEVICE void produce(ring buffers, const begun &known) const {
    auto &bar = buffers.all();
    const block_part &part = known.part;
    const int begin = operands::ahead(part), steps = part.end - part.first;
    loader_of_a from_a = known.from_a;
    loader_of_b from_b(problem, b, part.n0, part.slice,
                       part.first + (loader_of_b::is_weights ? begin : 0));
    TENON_NO_UNROLL
    for (int s = 0; s < begin; ++s) {
      if constexpr (!loader_of_b::is_weights) {
        bar.full[s].arrive_expecting(ring::landing);
        from_b.load(buffers.b(s), map_b, bar.full[s]);
      }
      from_a.load(buffers.a(s), map_a, bar.full[s]);
    }
    typename ring::position at;
    TENON_NO_UNROLL
    for (int s = begin; s < steps; ++s, at.next()) {
      bar.empty[at.stage].wait(at.parity);
      bar.full[at.stage].arrive_expecting(ring::landing);
      from_a.load(buffers.a(at.stage), map_a, bar.full[at.stage]);
      from_b.load(buffers.b(at.stage), map_b, bar.full[at.stage]);
    }
  }

  TENON_DEVICE void consume(unsigned char *shared, const block_part &part) const {
    const ring buffers{ptx::opaque(shared)};
    const int group = uniform_warp() / 4;
    const int m_offset = shares_columns ? 0 : group * rows,
              n_offset = shares_columns ? group * columns : 0;
    block_part own = part;
    own.n0 += n_offset;
    const epilogue then(problem, outs, ins, body, own, part.m0 + m_offset);
    const auto from = ring_products<mma, blocks_m, tile_k, true>(
        buffers, shared + ring::bytes, problem, prologue, prologue_ins, multiplying);
    warpgroup_sums<mma, blocks_m> sum;
    typename ring::position at;
    if constexpr (splits == 1) {
      typename epilogue::all_runs reads;
      then.fetch_all(reads);
      from.multiply(sum, at, part, m_offset, n_offset);
      ptx::wgmma_group::wait<0>();
      ptx::wgmma_group::pin(sum.of);
      then.finish_all(sum.of, reads);
    } else {
      const int first = first_unit(part.split);
      typename epilogue::unit_run reads;
      if (first < units)
        then.fetch_unit(reads, first);
      from.multiply(sum, at, part, m_offset, n_offset);
      ptx::wgmma_group::wait<0>();
      ptx::wgmma_group::pin(sum.of);
      if (part.first == part.end)
        sum.clear();
      send(shared, buffers.all().sent, part.split, sum.of);
      if (first < units)
        finish_share(shared, buffers.all().sent, first, then, reads);
    }
  }

  /// Which block finishes a unit of this warp's.
  TENON_DEVICE static int receiver(int unit) {
    return receivers == 1 ? unit % splits : unit + units * (warp() % receivers);
  }
  /// The first unit of this warp's that block `split` finishes; as many as there are, or more, for
  /// none. Others follow at distances of `splits`.
  TENON_DEVICE static int first_unit(int split) {
    if constexpr (receivers == 1)
      return split;
    else
      return split / units == warp() % receivers ? split % units : units;
  }
  /// How many units block `split` gets of each part.
  TENON_DEVICE static int received(int split) {
    return receivers == 1 ? (units + splits - 1 - split) / splits : split < units * receivers;
  }

  /// Where a unit of a block's, from part `split`, has its first word for this thread.
  TENON_DEVICE word16 *sent(unsigned char *shared, int own, int split) const {
    return reinterpret_cast<word16 *>(shared + sent_at()) + (own * splits + split) * 2 * sending +
           (receivers == 1 ? thread() : warp() / receivers * 32 + lane());
  }
  template <class T, int Count>
  TENON_DEVICE void send(unsigned char *shared, ptx::mbarrier &done, int split,
                         const T (&sum)[Count]) const {
    static_assert(sizeof(T) == 4 && units * 8 == Count, "units are two words");
    ptx::cluster::wait(); // all have begun
    TENON_UNROLL
    for (int u = 0; u < units; ++u) {
      TENON_UNROLL
      for (int half = 0; half < 2; ++half) {
        T four[4];
        TENON_UNROLL
        for (int e = 0; e < 4; ++e)
          four[e] = sum[epilogue::place_in_unit(u, 4 * half + e)];
        word16 w;
        memcpy(static_cast<void *>(&w), four, sizeof(w));
        ptx::cluster::send(sent(shared, u / splits, split) + half * sending, done, receiver(u), w);
      }
    }
  }
  template <class Run>
  TENON_DEVICE void finish_share(unsigned char *shared, ptx::mbarrier &done, int first,
                                 const epilogue &then, const Run &reads) const {
    using T = typename mma::sum;
    Run run = reads;
    done.wait_for_cluster(0);
    TENON_NO_UNROLL
    for (int u = first; u < units; u += splits) {
      if (u != first)
        then.fetch_unit(run, u);
      T eight[8] = {};
      TENON_UNROLL
      for (int s = 0; s < splits; ++s) {
        const word16 *words = sent(shared, u / splits, s);
        T more[8];
        memcpy(more, &words[0], 16);
        memcpy(more + 4, &words[sending], 16);
        TENON_UNROLL
        for (int e = 0; e < 8; ++e)
          eight[e] += more[e];
      }
      then.finish_unit(u, eight, run);
    }
  }
};

template <class Config, class X, class W, class Outs, class Ins, class Body,
          class Prologue = no_prologue, class PrologueIns = arguments<>>
contract_cluster_sm90_kernel<Config, conv_problem<Config, X>, W, Outs, Ins, Body, Prologue,
                             PrologueIns>
conv_cluster_sm90(Config cfg, X x, W w, Outs outs, Ins ins, Body body, Prologue prologue = {},
                  PrologueIns prologue_ins = {}) {
  return {{cfg, x}, w, outs, ins, body, prologue, prologue_ins};
}

template <class Config, class X, class B, class Outs, class Ins, class Body,
          class Prologue = no_prologue, class PrologueIns = arguments<>>
contract_cluster_sm90_kernel<Config, matmul_problem<Config, X>, B, Outs, Ins, Body, Prologue,
                             PrologueIns>
matmul_cluster_sm90(Config cfg, X x, B b, Outs outs, Ins ins, Body body, Prologue prologue = {},
                    PrologueIns prologue_ins = {}) {
  return {{cfg, x}, b, outs, ins, body, prologue, prologue_ins};
}

} // namespace cuda
} // namespace tenon

#endif
