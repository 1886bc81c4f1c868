// Defines `conv_wgmma_sm90` and `matmul_wgmma_sm90`: contractions on Tensor Cores by wgmma, with
// the copy engine as loader (sm_90a only). fp16 and bf16, and tf32 for tensors of float; fp32 sums.
// `conv_tf32x3_sm90` and `matmul_tf32x3_sm90`, for float, are as exact as fp32.
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
// tf32x3: three warps beside the producer split each buffer's floats in big and small parts
// (tf32.cuh) where they lie, the small ones behind the big ones' tile, and say so by a third
// barrier, `split`. Consumers multiply small * big, big * small and big * big. Tensor Cores cut off
// what they add, where fp32 rounds: sums of one step begin at zero and are added to the fp32 sums
// in registers, with what was cut off on the average.
//
// The epilogue hands runs of 8 neighbouring columns to the body: the four lanes that share a row
// exchange their sums. What the body reads is fetched a batch of columns ahead, the first batch
// before the multiplications: with a tile or two per block nothing else hides those loads. The
// first steps' weights are on their way before the dependency wait.
//
// With a prologue A is multiplied from registers: a warp loads its fragments of a step and applies
// the prologue to each while those before it multiply. A step ends before the next one begins:
// ptxas follows registers that are being read through straight code only.
//
// Shared memory: A [stages][parts][tile_m x tile_k], B [stages][parts][tile_k x tile_n] as swizzled
// tiles (ptx/wgmma.cuh), then the barriers and what the prologue reads. parts: 2 of tf32x3, else 1.
//
// Config: as for contract_simt.cuh. Schedule: tile_m, tile_n, tile_k, consumers, ping_pong, stages,
// splits, multiprocessors; see contract_wgmma_schedule. A row of tile_k elements has 32, 64 or 128
// bytes. Operands: both of one type, which tensor maps can describe (tensor_map.h); groups of more
// than one have channels that are a multiple of tile_k. Weights: tensor_loader.cuh.
#ifndef TENON_RUNTIME_CUDA_CONTRACT_WGMMA_SM90_CUH
#define TENON_RUNTIME_CUDA_CONTRACT_WGMMA_SM90_CUH

#include "cuda/fragment_prologue.cuh"
#include "cuda/ptx/ldmatrix.cuh"
#include "cuda/ptx/named_barrier.cuh"
#include "cuda/ptx/proxy_fence.cuh"
#include "cuda/ptx/setmaxnreg.cuh"
#include "cuda/split_k.cuh"
#include "cuda/tensor_loader.cuh"
#include "cuda/tf32.cuh"
#include "cuda/tile_order.cuh"

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

/// Parts: how many parts of operands are multiplied, 2 for tf32x3.
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
  tensor_map map_a = {}, map_b = {};

  static constexpr int tile_m = Config::tile_m, tile_n = Config::tile_n, tile_k = Config::tile_k;
  static constexpr int stages = Config::stages, splits = Config::splits;
  static constexpr int consumers = Config::consumers;
  static constexpr bool ping_pong = Config::ping_pong;
  static constexpr int threads = 128 * (consumers + 1), blocks_per_sm = 1;
  static constexpr int rows = ping_pong ? tile_m : tile_m / consumers; // of one consumer
  static constexpr int blocks_m = rows / 64;
  static_assert(rows % 64 == 0 && tile_n % 32 == 0 && tile_n <= 256, "tiles are whole blocks");
  static_assert(!ping_pong || consumers == 2, "two take turns");
  static_assert(blocks_m * tile_n * Parts <= 256, "sums fit in registers");

  using loader_of_a = tensor_a<Problem, tile_m, tile_k>;
  using loader_of_b = tensor_b<Problem, B, tile_n, tile_k>;
  using a_tile = typename loader_of_a::tile;
  using b_tile = typename loader_of_b::tile;
  using element = typename loader_of_b::element;
  static_assert(detail::is_same<element, typename Problem::element>, "operands of one type");
  using mma = ptx::wgmma_shared<element, tile_n, !a_tile::k_major, !b_tile::k_major>;
  static_assert(tile_k % mma::k == 0, "tiles are whole steps");
  static constexpr bool has_prologue = !detail::is_same<Prologue, no_prologue>;
  static_assert(!has_prologue || (sizeof(element) == 2 && a_tile::k_major && Problem::on_fragments),
                "fragments take a prologue");
  static constexpr bool splits_operands = Parts == 2;
  static_assert(Parts == 1 || (splits_operands && detail::is_same<element, float>),
                "floats have two parts");
  static constexpr int sums = tile_n / 2; // of a thread, for 64 rows

  // Registers: the block is launched with an even share for each thread.
  static constexpr int even_share = 65536 / threads / 8 * 8;
  static constexpr bool moves_registers = even_share < 224;
  static constexpr int producer_registers = splits_operands ? 56 : 40;
  static constexpr int consumer_registers =
      min_of(240, (even_share + (even_share - producer_registers) / consumers) / 8 * 8);

  struct barriers {
    ptx::mbarrier full[stages], empty[stages], turn[2], split[splits_operands ? stages : 1];
    int finished[2]; // for split-K
  };

  using staged = staged_channels<PrologueIns>;
  static constexpr int barriers_at = stages * Parts * (a_tile::bytes + b_tile::bytes),
                       channels_at = barriers_at + ceil_div(int(sizeof(barriers)), 16) * 16;

  TENON_FN static constexpr bool runs_on(target t) { return t.arch == 900 && t.specific; }
  int shared_bytes() const { return channels_at + staged::bytes(problem.prologue_channels()); }
  index_t parts() const {
    return index_t(order().tiles_m) * order().tiles_n * problem.slices() * splits;
  }
  grid blocks() const { return {min_of(parts(), index_t(Config::multiprocessors)), 1, 1}; }
  status complete() {
    TENON_CHECK(loader_of_a::encode(map_a, problem));
    return loader_of_b::encode(map_b, problem, b);
  }

  TENON_DEVICE void prefetch(unsigned char *shared) const {
    if (thread() != producer_thread)
      return;
    barriers &bar = barriers_of(shared);
    TENON_UNROLL
    for (int s = 0; s < stages; ++s) {
      bar.full[s].init(1);
      bar.empty[s].init(4 * (ping_pong ? 1 : consumers));
      if constexpr (splits_operands)
        bar.split[s].init(splitter_warps);
    }
    bar.turn[0].init(4);
    bar.turn[1].init(4);
    ptx::mbarrier::fence_init();
    ptx::proxy_fence::shared();
    ptx::prefetch_tensor_map::hint(map_a);
    ptx::prefetch_tensor_map::hint(map_b);
    if constexpr (loader_of_b::is_weights) {
      const block_part part = part_at(block_x());
      loader_of_b from_b(problem, b, part.n0, part.slice, part.first);
      const int ahead = min_of(part.end - part.first, stages);
      for (int s = 0; s < ahead; ++s) {
        bar.full[s].arrive_expecting(a_tile::bytes + b_tile::bytes);
        from_b.load(tile_of_b(shared, s), map_b, bar.full[s]);
      }
    }
  }

  TENON_DEVICE void run(unsigned char *shared) const {
    sync_block(); // barriers are ready
    const int group = warp() / 4;
    if (group == consumers) {
      if constexpr (moves_registers)
        ptx::setmaxnreg<producer_registers>::release();
      if (thread() == producer_thread)
        produce(shared);
      if constexpr (splits_operands)
        if (warp() % 4 > 0)
          split(shared);
    } else {
      if constexpr (moves_registers)
        ptx::setmaxnreg<consumer_registers>::acquire();
      consume(shared, group);
    }
  }

private:
  struct warpgroup {
    int group;
    TENON_DEVICE int rank() const { return thread() % 128; }
    TENON_DEVICE void sync() const { ptx::named_barrier::sync(1 + group, 128); }
  };
  static constexpr int producer_thread = 128 * consumers, splitter_warps = 3;

  TENON_FN detail::tile_order order() const {
    return {ceil_div(problem.rows(), tile_m), ceil_div(problem.columns(), tile_n),
            loader_of_a::steps(problem)};
  }
  TENON_DEVICE block_part part_at(int index) const {
    return order().template part<tile_m, tile_n, splits>(index);
  }
  TENON_DEVICE int part_count() const {
    return order().tiles_m * order().tiles_n * problem.slices() * splits;
  }
  TENON_DEVICE static unsigned char *tile_of_a(unsigned char *shared, int stage) {
    return shared + stage * Parts * a_tile::bytes;
  }
  TENON_DEVICE static unsigned char *tile_of_b(unsigned char *shared, int stage) {
    return shared + Parts * (stages * a_tile::bytes + stage * b_tile::bytes);
  }
  TENON_DEVICE static barriers &barriers_of(unsigned char *shared) {
    return *reinterpret_cast<barriers *>(shared + barriers_at);
  }

  TENON_DEVICE void produce(unsigned char *shared) const {
    barriers &bar = barriers_of(shared);
    detail::ring_position<stages> at;
    const int count = part_count();
    // Steps whose weights prefetch() has brought.
    int begun = loader_of_b::is_weights ? stages : 0;
    for (int index = block_x(); index < count; index += grid_x()) {
      const block_part part = part_at(index);
      loader_of_a from_a(problem, part.m0, part.slice, part.first);
      const int ahead = min_of(part.end - part.first, begun);
      loader_of_b from_b(problem, b, part.n0, part.slice, part.first + ahead);
      begun = 0;
      TENON_NO_UNROLL
      for (int step = part.first; step < part.end; ++step, at.next()) {
        if (step - part.first < ahead) {
          from_a.load(tile_of_a(shared, at.stage), map_a, bar.full[at.stage]);
          continue;
        }
        bar.empty[at.stage].wait(at.parity ^ 1);
        bar.full[at.stage].arrive_expecting(a_tile::bytes + b_tile::bytes);
        from_a.load(tile_of_a(shared, at.stage), map_a, bar.full[at.stage]);
        from_b.load(tile_of_b(shared, at.stage), map_b, bar.full[at.stage]);
      }
    }
  }

  TENON_DEVICE void split(unsigned char *shared) const {
    barriers &bar = barriers_of(shared);
    detail::ring_position<stages> at;
    const int count = part_count(), rank = thread() - producer_thread - 32;
    for (int index = block_x(); index < count; index += grid_x()) {
      const block_part part = part_at(index);
      TENON_NO_UNROLL
      for (int step = part.first; step < part.end; ++step, at.next()) {
        bar.full[at.stage].wait(at.parity);
        split_tile<a_tile::bytes, 32 * splitter_warps>(tile_of_a(shared, at.stage), rank);
        split_tile<b_tile::bytes, 32 * splitter_warps>(tile_of_b(shared, at.stage), rank);
        ptx::proxy_fence::shared();
        sync_warp();
        if (lane() == 0)
          bar.split[at.stage].arrive();
      }
    }
  }

  TENON_DEVICE void consume(unsigned char *shared, int group) const {
    if constexpr (has_prologue) {
      staged::copy(prologue_ins, shared + channels_at, problem.prologue_channels(), thread(),
                   128 * consumers);
      ptx::cp_async_group::commit();
      ptx::cp_async_group::wait<0>();
      ptx::named_barrier::sync(1 + consumers, 128 * consumers);
    }
    barriers &bar = barriers_of(shared);
    detail::ring_position<stages> at;
    const int count = part_count(), m_offset = ping_pong ? 0 : group * rows;
    int round = 0;
    for (int index = block_x(); index < count; index += grid_x(), ++round) {
      const block_part part = part_at(index);
      if (ping_pong && (round & 1) != group) {
        at.skip(part.end - part.first);
        continue;
      }
      // The other's multiplications come before, its epilogue during this one's.
      if (ping_pong && round > 0)
        bar.turn[group].wait((round - 1) / 2 & 1);
      epilogue_runs first;
      if constexpr (splits == 1)
        fetch_first(first, part, part.m0 + m_offset);
      float sum[blocks_m * sums];
      if constexpr (splits_operands)
        multiply_parts(sum, shared, at, part, m_offset);
      else
        multiply(sum, shared, at, part, m_offset);
      if (ping_pong && lane() == 0)
        bar.turn[group ^ 1].arrive();
      ptx::wgmma_group::wait<0>();
      ptx::wgmma_group::pin(sum);
      if (!has_prologue && !splits_operands && part.end > part.first)
        release(bar, (at.stage + stages - 1) % stages);
      if constexpr (splits > 1) {
        const int unit = ping_pong ? part.tile : part.tile * consumers + group;
        if (!combine_splits<splits, 128>(scratch, unit, part.split, sum, &bar.finished[group],
                                         warpgroup{group}))
          continue;
        fetch_first(first, part, part.m0 + m_offset);
      }
      finish(sum, first, part, part.m0 + m_offset);
    }
  }
  TENON_DEVICE static void release(barriers &bar, int stage) {
    if (lane() == 0)
      bar.empty[stage].arrive();
  }

  /// Starts the multiplications of a tile; all but the last step's have finished on return.
  TENON_DEVICE void multiply(float (&sum)[blocks_m * sums], unsigned char *shared,
                             detail::ring_position<stages> &at, const block_part &part,
                             int m_offset) const {
    if constexpr (splits > 1) { // a part may be empty
      TENON_UNROLL
      for (int e = 0; e < blocks_m * sums; ++e)
        sum[e] = 0;
    }
    if constexpr (has_prologue) {
      TENON_NO_UNROLL
      for (int step = part.first; step < part.end; ++step)
        multiply_fragments(sum, shared, at, part, step, m_offset);
    } else {
      barriers &bar = barriers_of(shared);
      const uint64_t first_a = ptx::wgmma_tile<a_tile::span>::advance(a_tile::descriptor(shared),
                                                                      a_tile::offset(m_offset, 0));
      int before = 0;
      TENON_NO_UNROLL
      for (int step = part.first; step < part.end; ++step) {
        bar.full[at.stage].wait(at.parity);
        const uint64_t a =
            ptx::wgmma_tile<a_tile::span>::advance(first_a, at.stage * a_tile::bytes);
        const uint64_t w = b_tile::descriptor(tile_of_b(shared, at.stage));
        ptx::wgmma_group::fence();
        TENON_UNROLL
        for (int k = 0; k < tile_k; k += mma::k) {
          TENON_UNROLL
          for (int i = 0; i < blocks_m; ++i)
            mma::multiply(sums_of(sum, i),
                          ptx::wgmma_tile<a_tile::span>::advance(a, a_tile::offset(64 * i, k)),
                          ptx::wgmma_tile<b_tile::span>::advance(w, b_tile::offset(0, k)),
                          k > 0 || step > part.first);
        }
        ptx::wgmma_group::commit();
        ptx::wgmma_group::wait<1>();
        if (step > part.first)
          release(bar, before);
        before = at.stage;
        at.next();
      }
    }
  }
  TENON_DEVICE static float (&sums_of(float (&sum)[blocks_m * sums], int block))[sums] {
    return reinterpret_cast<float(&)[sums]>(sum[block * sums]);
  }

  TENON_DEVICE void multiply_fragments(float (&sum)[blocks_m * sums], unsigned char *shared,
                                       detail::ring_position<stages> &at, const block_part &part,
                                       int step, int m_offset) const {
    using mma_registers = ptx::wgmma_registers<element, tile_n, !b_tile::k_major>;
    barriers &bar = barriers_of(shared);
    fragment_prologue<element, Problem::template may_be_vector<tile_k>(), Prologue,
                      typename staged::views>
        on_way[tile_k / 16];
    const auto channels = staged::at(shared + channels_at, problem.prologue_channels());
    TENON_UNROLL
    for (int k = 0; k < tile_k; k += 16) {
      const int first = step * tile_k + k;
      on_way[k / 16].load(channels, problem.channel(problem.make_column(first), part.slice),
                          problem.depth() - first);
    }
    bar.full[at.stage].wait(at.parity);
    const unsigned char *tile = tile_of_a(shared, at.stage);
    unsigned a[tile_k / 16][blocks_m][4];
    TENON_UNROLL
    for (int k = 0; k < tile_k; k += 16) {
      TENON_UNROLL
      for (int i = 0; i < blocks_m; ++i) {
        const int row = m_offset + 64 * i + 16 * (warp() % 4) + lane() % 16;
        ptx::ldmatrix_x4::load(a[k / 16][i], tile + a_tile::run_at(row, k / 8 + lane() / 16));
      }
    }
    const uint64_t w = b_tile::descriptor(tile_of_b(shared, at.stage));
    TENON_UNROLL
    for (int k = 0; k < tile_k; k += 16) {
      TENON_UNROLL
      for (int i = 0; i < blocks_m; ++i) {
        on_way[k / 16].apply(prologue, a[k / 16][i]);
        ptx::wgmma_group::pin(a[k / 16][i]);
      }
      ptx::wgmma_group::fence();
      TENON_UNROLL
      for (int i = 0; i < blocks_m; ++i)
        mma_registers::multiply(sums_of(sum, i), a[k / 16][i],
                                ptx::wgmma_tile<b_tile::span>::advance(w, b_tile::offset(0, k)),
                                k > 0 || step > part.first);
      ptx::wgmma_group::commit();
    }
    ptx::wgmma_group::wait<0>();
    release(bar, at.stage);
    at.next();
  }

  /// The same for operands in two parts; all has finished on return.
  TENON_DEVICE void multiply_parts(float (&sum)[blocks_m * sums], unsigned char *shared,
                                   detail::ring_position<stages> &at, const block_part &part,
                                   int m_offset) const {
    using tile = ptx::wgmma_tile<a_tile::span>;
    barriers &bar = barriers_of(shared);
    TENON_UNROLL
    for (int e = 0; e < blocks_m * sums; ++e)
      sum[e] = 0;
    const uint64_t first_a = tile::advance(a_tile::descriptor(shared), a_tile::offset(m_offset, 0));
    const uint64_t first_b = b_tile::descriptor(tile_of_b(shared, 0));
    TENON_NO_UNROLL
    for (int step = part.first; step < part.end; ++step) {
      bar.split[at.stage].wait(at.parity);
      const uint64_t a = tile::advance(first_a, at.stage * Parts * a_tile::bytes);
      const uint64_t w = tile::advance(first_b, at.stage * Parts * b_tile::bytes);
      float products[blocks_m * sums];
      ptx::wgmma_group::fence();
      TENON_UNROLL
      for (int p = 0; p < 3; ++p) { // small * big, big * small, big * big
        TENON_UNROLL
        for (int k = 0; k < tile_k; k += mma::k) {
          TENON_UNROLL
          for (int i = 0; i < blocks_m; ++i)
            mma::multiply(
                reinterpret_cast<float(&)[sums]>(products[i * sums]),
                tile::advance(a, (p == 0 ? a_tile::bytes : 0) + a_tile::offset(64 * i, k)),
                tile::advance(w, (p == 1 ? b_tile::bytes : 0) + b_tile::offset(0, k)),
                p > 0 || k > 0);
        }
      }
      ptx::wgmma_group::commit();
      ptx::wgmma_group::wait<0>();
      ptx::wgmma_group::pin(products);
      release(bar, at.stage);
      at.next();
      TENON_UNROLL
      for (int e = 0; e < blocks_m * sums; ++e)
        sum[e] += with_lost_part<tile_k>(products[e]);
    }
  }

  // The epilogue goes in batches of `batch` times 32 columns of the 8 rows that a warp's lanes hold
  // at a time: batch number b has columns b / batches_m and of the rows, 64 in a block, half
  // b % batches_m. So what is fixed beside the columns is loaded once for all rows.
  static constexpr int blocks_n = tile_n / 32, batch = blocks_n <= 4 ? blocks_n : 2;
  static constexpr int batches_m = blocks_m * 2, batches = batches_m * (blocks_n / batch);
  static_assert(blocks_n % batch == 0, "batches are whole");

  struct epilogue_runs {
    operand_runs<8, Ins> columns[batch];
  };
  /// Where a batch's first run lies; false where there is no such row.
  TENON_DEVICE bool seek(const block_part &part, int m0, int b, int (&point)[Problem::rank]) const {
    const int m = m0 + 64 * (b % batches_m / 2) + 16 * (warp() % 4) + 8 * (b % 2) + lane() / 4;
    const bool inside = m < problem.rows();
    problem.point(part.slice, inside ? m : 0, first_column(part, b), point);
    return inside;
  }
  TENON_DEVICE static int first_column(const block_part &part, int b) {
    return part.n0 + 8 * (lane() % 4) + 32 * batch * (b / batches_m);
  }
  template <operand_part Part>
  TENON_DEVICE void fetch(epilogue_runs &to, const block_part &part, int m0, int b) const {
    int point[Problem::rank];
    const bool inside = seek(part, m0, b, point) || Part == operand_part::fixed;
    TENON_UNROLL
    for (int j = 0; j < batch; ++j, point[Problem::along] += 32) {
      const int left = problem.columns() - first_column(part, b) - 32 * j;
      to.columns[j].template load<Problem::along, Part>(ins, point, inside ? min_of(left, 8) : 0);
    }
  }
  TENON_DEVICE void fetch_first(epilogue_runs &to, const block_part &part, int m0) const {
    fetch<operand_part::moving>(to, part, m0, 0);
    fetch<operand_part::fixed>(to, part, m0, 0);
  }
  TENON_DEVICE void finish(float (&sum)[blocks_m * sums], const epilogue_runs &first,
                           const block_part &part, int m0) const {
    epilogue_runs now = first;
    TENON_UNROLL
    for (int b = 0; b < batches; ++b) {
      epilogue_runs next;
      if (b + 1 < batches)
        fetch<operand_part::moving>(next, part, m0, b + 1);
      int point[Problem::rank];
      const bool inside = seek(part, m0, b, point);
      TENON_UNROLL
      for (int j = 0; j < batch; ++j, point[Problem::along] += 32) {
        float eight[8];
        TENON_UNROLL
        for (int e = 0; e < 8; ++e)
          eight[e] = sum[b % batches_m / 2 * sums + 16 * (b / batches_m * batch + j) + 4 * (e / 2) +
                         2 * (b % 2) + e % 2];
        detail::gather_eight(eight);
        const int columns = min_of(problem.columns() - first_column(part, b) - 32 * j, 8);
        if (inside && columns > 0)
          apply_to_runs<Problem::along>(body, outs, now.columns[j], point, columns, eight);
      }
      TENON_UNROLL
      for (int j = 0; j < batch; ++j)
        next.columns[j].template take_fixed<Problem::along>(now.columns[j]);
      now = next;
      // Not earlier: with 128 sums there are no registers for two of them.
      if (b + 1 < batches && (b + 1) % batches_m == 0)
        fetch<operand_part::fixed>(now, part, m0, b + 1);
    }
  }
};

template <class Config, class X, class W, class Outs, class Ins, class Body,
          class Prologue = no_prologue, class PrologueIns = arguments<>>
contract_wgmma_sm90_kernel<1, Config, conv_problem<Config, X>, W, Outs, Ins, Body, Prologue,
                           PrologueIns>
conv_wgmma_sm90(Config cfg, X x, W w, Outs outs, Ins ins, Body body, split_scratch scratch = {},
                Prologue prologue = {}, PrologueIns prologue_ins = {}) {
  return {{cfg, x}, w, outs, ins, body, scratch, prologue, prologue_ins};
}

template <class Config, class X, class B, class Outs, class Ins, class Body,
          class Prologue = no_prologue, class PrologueIns = arguments<>>
contract_wgmma_sm90_kernel<1, Config, matmul_problem<Config, X>, B, Outs, Ins, Body, Prologue,
                           PrologueIns>
matmul_wgmma_sm90(Config cfg, X x, B b, Outs outs, Ins ins, Body body, split_scratch scratch = {},
                  Prologue prologue = {}, PrologueIns prologue_ins = {}) {
  return {{cfg, x}, b, outs, ins, body, scratch, prologue, prologue_ins};
}

template <class Config, class X, class W, class Outs, class Ins, class Body>
contract_wgmma_sm90_kernel<2, Config, conv_problem<Config, X>, W, Outs, Ins, Body>
conv_tf32x3_sm90(Config cfg, X x, W w, Outs outs, Ins ins, Body body, split_scratch scratch = {}) {
  return {{cfg, x}, w, outs, ins, body, scratch, {}, {}};
}

template <class Config, class X, class B, class Outs, class Ins, class Body>
contract_wgmma_sm90_kernel<2, Config, matmul_problem<Config, X>, B, Outs, Ins, Body>
matmul_tf32x3_sm90(Config cfg, X x, B b, Outs outs, Ins ins, Body body,
                   split_scratch scratch = {}) {
  return {{cfg, x}, b, outs, ins, body, scratch, {}, {}};
}

} // namespace cuda
} // namespace tenon

#endif
