// Defines `conv_wgmma_sm90` and `matmul_wgmma_sm90`: contractions on Tensor Cores by wgmma, with
// the copy engine as loader (sm_90a only). fp16, bf16 and f8e4m3, and tf32 for tensors of float,
// whose B has been rounded; fp32 sums. `conv_tf32x3_sm90` and `matmul_tf32x3_sm90`, for float, are
// as exact as fp32. `conv_int8_sm90` and `matmul_int8_sm90` multiply int8_t or uint8_t by weights
// of int8_t with exact 32-bit sums; the zero point of x is 0, for that is what lies beyond the
// border.
//
// Algorithm: implicit GEMM by persistent, specialised warpgroups. The last warpgroup is the
// producer: one thread of it brings tiles of A and B (tensor_loader.cuh) into a ring of `stages`
// buffers; the others, `consumers` of them, multiply from there. Each buffer has two barriers,
// `full` (its bytes have landed) and `empty` (all who multiply from it are done). A block takes
// every gridDim-th output tile; the producer runs ahead over tile borders, so that the next tile's
// first steps load during the epilogue.
//
//   cooperative   the consumers share a tile, tile_m / consumers rows each
//   ping_pong     two consumers with a tile each: one multiplies while the other is in its epilogue
//
// Blocks that split K meet in global memory (split_k.cuh). Where tiles are few,
// contract_cluster/kernel.cuh is faster.
//
// The first steps' weights are on their way before the dependency wait. How a consumer multiplies
// is in warpgroup/products.cuh, what it does with the sums in warpgroup/epilogue.cuh. A B of floats
// that is to be multiplied in two parts (tf32.cuh) and has not been stored so is split in its
// buffer by three warps beside the producer; a third barrier, `split`, says when.
//
// Shared memory: that of tensor_ring.cuh, then what the prologue reads.
//
// Config: as for contract_simt/kernel.cuh. Schedule: tile_m, tile_n, tile_k, consumers, ping_pong,
// stages, splits, multiprocessors; see contract_wgmma_schedule. A row of tile_k elements has 32, 64
// or 128 bytes. Operands: both of one type or of bytes, which tensor maps can describe
// (tensor_map.h); where there are several groups, their channels are a multiple of tile_k. Weights:
// tensor_loader.cuh, packed_weights or, for tf32x3, packed_parts, too; or packed_pair, the weights
// of two products of the same rows: the body gets the sums of both, and a tile has tile_n / 2
// columns of the result.
#ifndef TENON_RUNTIME_CUDA_CONTRACT_WGMMA_KERNEL_CUH
#define TENON_RUNTIME_CUDA_CONTRACT_WGMMA_KERNEL_CUH

#include "cuda/ptx/elect.cuh"
#include "cuda/ptx/named_barrier.cuh"
#include "cuda/ptx/proxy_fence.cuh"
#include "cuda/ptx/setmaxnreg.cuh"
#include "cuda/tile/split_k.cuh"
#include "cuda/warpgroup/epilogue.cuh"
#include "cuda/warpgroup/products.cuh"

namespace tenon {
namespace cuda {

/// A schedule's members, to derive a Config from. `multiprocessors` bounds the grid.
template <int TileM, int TileN, int TileK, int Consumers, bool PingPong, int Stages, int Splits = 1,
          int Multiprocessors = 132>
struct contract_wgmma_schedule {
  static constexpr int tile_m = TileM, tile_n = TileN, tile_k = TileK, consumers = Consumers;
  static constexpr bool ping_pong = PingPong;
  static constexpr int stages = Stages, splits = Splits, multiprocessors = Multiprocessors;
};

/// Parts: how many parts of floats are multiplied, 2 for tf32x3.
template <int Parts, class Config, class Problem, class B, class Outs, class Ins, class Body,
          class Prologue = no_prologue, class PrologueIns = arguments<>>
struct contract_wgmma_sm90_kernel {
  Problem problem;
  B b;
  Outs outs;
  Ins ins;
  Body body;
  split_scratch scratch;
  Prologue prologue;
  PrologueIns prologue_ins;

  static constexpr int tile_m = Config::tile_m, tile_n = Config::tile_n, tile_k = Config::tile_k;
  static constexpr int stages = Config::stages, splits = Config::splits;
  static constexpr int consumers = Config::consumers;
  static constexpr bool ping_pong = Config::ping_pong;
  static constexpr int threads = 128 * (consumers + 1), blocks_per_sm = 1;
  static constexpr int rows = ping_pong ? tile_m : tile_m / consumers; // of one consumer
  static constexpr int blocks_m = rows / 64;
  static_assert(rows % 64 == 0 && tile_n <= 256, "tiles are whole blocks");
  static_assert(!ping_pong || consumers == 2, "two take turns");
  static_assert(splits == 1 || consumers <= 2, "two at most wait for other parts");

  using operands = tensor_operands<Problem, B, tile_m, tile_n, tile_k, stages, Parts>;
  using loader_of_a = typename operands::loader_of_a;
  using loader_of_b = typename operands::loader_of_b;
  using element = typename operands::element;
  using ring = typename operands::ring;
  using begun = typename operands::begun;
  tensor_map map_a = {};
  typename operands::map_of_b map_b = {};
  /// Of the result: a tile's columns are those of all products.
  static constexpr int columns = operands::columns;
  /// Of them a thread holds half. Sums that are promoted need no more beside themselves.
  static_assert(blocks_m * tile_n * operands::sums_held <=
                    (is_promoted<element> && consumers <= 2 ? 384 : 256),
                "sums fit in registers");
  using mma = ptx::wgmma_shared<element, tile_n, !ring::a_tile::k_major, !ring::b_tile::k_major>;
  static_assert(tile_k % mma::k == 0, "tiles are whole steps");
  static constexpr bool splits_b = ring::splits;
  using sums = warpgroup_sums<mma, blocks_m>;
  using epilogue = warpgroup_epilogue<Problem, Outs, Ins, Body, columns, blocks_m,
                                      operands::sums_held, operands::products>;

  // Registers: the block is launched with an even share for each thread.
  static constexpr int even_share = 65536 / threads / 8 * 8;
  static constexpr bool moves_registers = even_share < 224;
  static constexpr int producer_registers = splits_b ? 56 : 40;
  static constexpr int consumer_registers =
      min_of(240, (even_share + (even_share - producer_registers) / consumers) / 8 * 8);

  using staged = staged_channels<PrologueIns>;

  TENON_FN static constexpr bool runs_on(target t) { return t.arch == 900 && t.specific; }
  int shared_bytes() const { return ring::bytes + staged::bytes(problem.prologue_channels()); }
  index_t parts() const {
    return index_t(order().tiles_m) * order().tiles_n * problem.slices() * splits;
  }
  grid blocks() const { return {min_of(parts(), index_t(Config::multiprocessors)), 1, 1}; }
  status complete() { return operands::encode(map_a, map_b, problem, b); }

  TENON_DEVICE begun prefetch(unsigned char *shared) const {
    const block_part part = part_at(block_x());
    begun first = operands::begin(problem, part);
    if (uniform_warp() == producer_warp && ptx::elect::one()) {
      const ring buffers{ptx::opaque(shared)};
      buffers.init(4 * (ping_pong ? 1 : consumers), splitter_warps);
      operands::prefetch(buffers, problem, b, map_a, map_b, first);
    }
    sync_block(); // barriers are ready
    return first;
  }

  TENON_DEVICE void run(unsigned char *shared, const begun &first) const {
    const int group = uniform_warp() / 4;
    if (group == consumers) {
      if constexpr (moves_registers)
        ptx::setmaxnreg<producer_registers>::release();
      if (uniform_warp() == producer_warp) {
        if (ptx::elect::one())
          produce({ptx::opaque(shared)}, first);
      } else if constexpr (splits_b) {
        split({shared});
      }
    } else {
      if constexpr (moves_registers)
        ptx::setmaxnreg<consumer_registers>::acquire();
      consume(shared, group, first.part);
    }
  }

private:
  struct warpgroup {
    int group;
    TENON_DEVICE int rank() const { return thread() % 128; }
    TENON_DEVICE void sync() const { ptx::named_barrier::sync(1 + group, 128); }
  };
  static constexpr int producer_warp = 4 * consumers, splitter_warps = 3;

  TENON_FN detail::tile_order order() const {
    return {ceil_div(problem.rows(), tile_m), ceil_div(problem.columns(), columns),
            loader_of_a::steps(problem)};
  }
  TENON_DEVICE block_part part_at(int index) const {
    return order().template part<tile_m, columns, splits>(index);
  }
  TENON_DEVICE int part_count() const {
    return order().tiles_m * order().tiles_n * problem.slices() * splits;
  }

  TENON_DEVICE void produce(ring buffers, const begun &first) const {
    typename ring::barriers &bar = buffers.all();
    typename ring::position at;
    const int count = part_count();
    loader_of_a from_a = first.from_a;
    block_part part = first.part;
    int begin = part.first;
    if constexpr (loader_of_b::is_weights) {
      begin += operands::ahead(part);
      TENON_NO_UNROLL
      for (int step = part.first; step < begin; ++step, at.next())
        from_a.load(buffers.a(at.stage), map_a, bar.full[at.stage]);
    }
    for (int index = block_x();;) {
      loader_of_b from_b(problem, b, part.n0, part.slice, begin);
      TENON_NO_UNROLL
      for (int step = begin; step < part.end; ++step, at.next()) {
        bar.empty[at.stage].wait(at.parity ^ 1);
        bar.full[at.stage].arrive_expecting(ring::landing);
        from_a.load(buffers.a(at.stage), map_a, bar.full[at.stage]);
        from_b.load(buffers.b(at.stage), map_b, bar.full[at.stage]);
      }
      index += grid_x();
      if (index >= count)
        return;
      part = part_at(index);
      begin = part.first;
      from_a.seek(part.m0, part.slice, begin);
    }
  }

  TENON_DEVICE void split(ring buffers) const {
    typename ring::barriers &bar = buffers.all();
    typename ring::position at;
    const int count = part_count(), rank = thread() - 32 * (producer_warp + 1);
    for (int index = block_x(); index < count; index += grid_x()) {
      const block_part part = part_at(index);
      TENON_NO_UNROLL
      for (int step = part.first; step < part.end; ++step, at.next()) {
        bar.full[at.stage].wait(at.parity);
        split_tile<ring::b_tile::bytes, 32 * splitter_warps>(buffers.b(at.stage), rank);
        ptx::proxy_fence::shared();
        sync_warp();
        if (lane() == 0)
          bar.split[at.stage].arrive();
      }
    }
  }

  TENON_DEVICE void consume(unsigned char *shared, int group, const block_part &first_part) const {
    const ring buffers{ptx::opaque(shared)};
    const auto from = ring_products<mma, blocks_m, tile_k, false>(
        buffers, shared + ring::bytes, problem, prologue, prologue_ins, 128 * consumers);
    typename ring::barriers &bar = buffers.all();
    typename ring::position at;
    const int count = part_count(), m_offset = ping_pong ? 0 : group * rows;
    int round = 0;
    for (int index = block_x(); index < count; index += grid_x(), ++round) {
      const block_part part = round == 0 ? first_part : part_at(index);
      if (ping_pong && (round & 1) != group) {
        at.skip(part.end - part.first);
        continue;
      }
      // The other's multiplications come before, its epilogue during this one's.
      if (ping_pong && round > 0)
        bar.turn[group].wait((round - 1) / 2 & 1);
      const epilogue then(problem, outs, ins, body, part, part.m0 + m_offset);
      typename epilogue::runs first;
      sums sum;
      if constexpr (splits == 1)
        then.fetch_first(first);
      else
        sum.clear(); // a part may be empty
      from.multiply(sum, at, part, m_offset);
      if (ping_pong && lane() == 0)
        bar.turn[group ^ 1].arrive();
      ptx::wgmma_group::wait<0>();
      ptx::wgmma_group::pin(sum.of);
      if (!from.releases_last && part.end > part.first)
        buffers.release((at.stage + stages - 1) % stages);
      if constexpr (splits > 1) {
        const int unit = ping_pong ? part.tile : part.tile * consumers + group;
        if (!combine_splits<splits, 128>(scratch, unit, part.split, sum.of,
                                         &ring{shared}.all().finished[group], warpgroup{group}))
          continue;
        then.fetch_first(first);
      }
      then.finish(sum.of, first);
    }
  }
};

namespace detail {

/// Parts: as above.
template <int Parts, class Config, class X, class W, class Outs, class Ins, class Body,
          class Prologue = no_prologue, class PrologueIns = arguments<>>
contract_wgmma_sm90_kernel<Parts, Config, conv_problem<Config, X>, W, Outs, Ins, Body, Prologue,
                           PrologueIns>
conv_wgmma(Config cfg, X x, W w, Outs outs, Ins ins, Body body, split_scratch scratch = {},
           Prologue prologue = {}, PrologueIns prologue_ins = {}) {
  return {{cfg, x}, w, outs, ins, body, scratch, prologue, prologue_ins};
}
template <int Parts, class Config, class X, class B, class Outs, class Ins, class Body,
          class Prologue = no_prologue, class PrologueIns = arguments<>>
contract_wgmma_sm90_kernel<Parts, Config, matmul_problem<Config, X>, B, Outs, Ins, Body, Prologue,
                           PrologueIns>
matmul_wgmma(Config cfg, X x, B b, Outs outs, Ins ins, Body body, split_scratch scratch = {},
             Prologue prologue = {}, PrologueIns prologue_ins = {}) {
  return {{cfg, x}, b, outs, ins, body, scratch, prologue, prologue_ins};
}

} // namespace detail

template <class... Arguments> auto conv_wgmma_sm90(Arguments... arguments) {
  return detail::conv_wgmma<1>(arguments...);
}
template <class... Arguments> auto matmul_wgmma_sm90(Arguments... arguments) {
  return detail::matmul_wgmma<1>(arguments...);
}
template <class... Arguments> auto conv_tf32x3_sm90(Arguments... arguments) {
  return detail::conv_wgmma<2>(arguments...);
}
template <class... Arguments> auto matmul_tf32x3_sm90(Arguments... arguments) {
  return detail::matmul_wgmma<2>(arguments...);
}
template <class... Arguments> auto conv_int8_sm90(Arguments... arguments) {
  return detail::conv_wgmma<1>(arguments...);
}
template <class... Arguments> auto matmul_int8_sm90(Arguments... arguments) {
  return detail::matmul_wgmma<1>(arguments...);
}

} // namespace cuda
} // namespace tenon

#endif
