// Defines `conv_simt` and `matmul_simt`: true fp32 contractions on CUDA cores.
//
// Algorithm: implicit GEMM. A block computes a tile_m x tile_n tile of the output; tiles of A
// (tile_m x tile_k) and B (tile_k x tile_n) pass through `stages` buffers of shared memory. A
// thread holds thread_m x thread_n sums: rows at distance tile_m/thread_m, columns in runs of four.
// Several `teams` of threads share a tile: each multiplies its part of tile_k, in the end they add
// up. That keeps a multiprocessor busy where tiles are few, without the way through global memory
// that splits take. Copies are as tile_loader.cuh says; the first tiles of weights are on their way
// before the dependency wait.
//
// Shared memory: A [stages][tile_m][tile_k + 4], B [stages][tile_k][tile_n], floats; then the sums
// that teams exchange, [teams - 1][tile_m * tile_n], in the same place. The four floats between
// rows of A keep the 16-byte reads of different rows in different banks. Lanes of a warp are
// numbered so that neighbours (lane ^ 1) read the same of A and others (lane ^ 2) the same of B:
// such reads of 16 bytes take two cycles instead of four.
//
// Config of conv_simt (derive from conv_defaults):
//   batch, in_h, in_w, out_h, out_w, groups, filters and channels (of one group), kernel_h,
//   kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left. x over (n, c, h, w);
//   outs and ins over (n, k, oh, ow); prologue_ins over (c).
// Config of matmul_simt (derive from matmul_defaults):
//   batch0, batch1, m, n, k, b_stride0, b_stride1. x over (b0, b1, m, k); outs and ins over
//   (b0, b1, m, n); b packed, or a view over (b0, b1, k, n); prologue_ins over (k).
// Either may say `aligned`: x starts at a multiple of 16 bytes; and `aligned_results`: so does all
// that the epilogue reads and writes.
// Schedule: tile_m, tile_n, tile_k, thread_m, thread_n, stages, splits, teams, least_shared; see
// contract_simt_schedule. least_shared: bytes of shared memory that a block takes at least. Where
// blocks are no more than multiprocessors, it keeps two from sharing one while the kernel before
// still runs on others.
// Weights: [groups][ceil(filters/tile_n)][kernel_h][kernel_w][channels][tile_n], zero padded.
#ifndef TENON_RUNTIME_CUDA_CONTRACT_SIMT_KERNEL_CUH
#define TENON_RUNTIME_CUDA_CONTRACT_SIMT_KERNEL_CUH

#include "cuda/contract_simt/geometry.h"
#include "cuda/tile/intra_block_split_k.cuh"
#include "cuda/tile/split_k.cuh"
#include "cuda/tile/tile_pipeline.cuh"

namespace tenon {
namespace cuda {

/// A schedule's members, to derive a Config from.
template <int TileM, int TileN, int TileK, int ThreadM, int ThreadN, int Stages, int Splits = 1,
          int IntraBlockSplitK = 1>
struct contract_simt_schedule {
  static constexpr int tile_m = TileM, tile_n = TileN, tile_k = TileK;
  static constexpr int thread_m = ThreadM, thread_n = ThreadN, stages = Stages;
  static constexpr int splits = Splits, intra_block_split_k = IntraBlockSplitK;
  static constexpr int least_shared = 0;
};

template <class Config, class Problem, class B, class Outs, class Ins, class Body, class Prologue,
          class PrologueIns>
struct contract_simt_kernel {
  Problem problem;
  B b;
  Outs outs;
  Ins ins;
  Body body;
  Prologue prologue;
  PrologueIns prologue_ins;
  split_scratch scratch;

  static constexpr int tile_m = Config::tile_m, tile_n = Config::tile_n, tile_k = Config::tile_k;
  static constexpr int thread_m = Config::thread_m, thread_n = Config::thread_n;
  static constexpr int stages = Config::stages, teams = Config::intra_block_split_k,
                       splits = Config::splits;
  static constexpr contract_simt_geometry shape = {tile_m,   tile_n, tile_k, thread_m,
                                                   thread_n, stages, teams};
  static constexpr int threads_n = tile_n / thread_n, threads_m = tile_m / thread_m;
  static constexpr int team_threads = shape.team_threads();
  static constexpr int threads = shape.threads(), blocks_per_sm = 1;
  static constexpr int lanes_n = threads_n % 8 == 0 ? 8 : 4, lanes_m = 32 / lanes_n; // of a warp
  static constexpr int own_m = thread_m / teams; // rows that a thread has in the end
  using a_tile = detail::plain_tile<tile_m, tile_k, shape.a_gap, 4>;
  using b_tile = detail::plain_tile<tile_k, tile_n, 0, 4>;
  static_assert(tile_m % thread_m == 0 && tile_n % thread_n == 0 && thread_n % 4 == 0 &&
                    tile_k % 4 == 0,
                "tiles are whole numbers of threads' parts");
  static_assert(threads_n % lanes_n == 0 && threads_m % lanes_m == 0 && threads <= 1024,
                "a team has whole warps");
  static_assert(tile_k % (4 * teams) == 0 && thread_m % teams == 0, "teams have even parts");

  static_assert(shape.buffer() == a_tile::size + b_tile::size, "as the tiles have it");

  using source = b_source<Problem, tile_n, B>;
  static_assert(
      (detail::is_same<compute_t<typename Problem::element>, float> ||
       !detail::is_same<Prologue,
                        no_prologue>)&&detail::is_same<compute_t<typename source::element>, float>,
      "this kernel computes in fp32");
  using loader_of_a = a_loader<Problem, float, a_tile, threads, Prologue, PrologueIns>;
  using loader_of_b = b_loader<source, float, b_tile, threads>;

  TENON_FN static constexpr bool runs_on(target) { return true; }
  int shared_bytes() const { return max_of(int(shape.shared_bytes()), Config::least_shared); }
  grid blocks() const {
    return {ceil_div(problem.rows(), tile_m), ceil_div(problem.columns(), tile_n),
            problem.slices() * splits};
  }

  TENON_DEVICE void prefetch(unsigned char *shared) const {
    const block_part part = part_of_block<tile_m, tile_n, tile_k, splits>(problem);
    const loader_of_b from(source(problem, b, part.slice, part.n0));
    prefetch_weights<stages>(from, part, [=](int s) { return tile_of_b(shared, s); });
  }

  TENON_DEVICE void run(unsigned char *shared) const {
    const block_part part = part_of_block<tile_m, tile_n, tile_k, splits>(problem);
    loader_of_a from_a(problem, prologue, prologue_ins, part.m0, part.slice);
    loader_of_b from_b(source(problem, b, part.slice, part.n0));
    float sum[thread_m * thread_n] = {};
    pipeline<stages>(
        from_a, from_b, part, [=](int s) { return tile_of_a(shared, s); },
        [=](int s) { return tile_of_b(shared, s); },
        [&](int s, int) { multiply(sum, tile_of_a(shared, s), tile_of_b(shared, s)); });
    if constexpr (teams == 1) {
      complete(sum, part, shared);
    } else {
      float own[own_m * thread_n];
      add_up_teams<teams, team_threads>(own, sum, shared); // own_m of the thread_m rows
      complete(own, part, shared);
    }
  }

private:
  TENON_DEVICE static float *tile_of_a(unsigned char *shared, int stage) {
    return reinterpret_cast<float *>(shared) + stage * a_tile::size;
  }
  TENON_DEVICE static float *tile_of_b(unsigned char *shared, int stage) {
    return reinterpret_cast<float *>(shared) + stages * a_tile::size + stage * b_tile::size;
  }

  /// The thread's place in its team: its first row, and which run of four columns is its first.
  TENON_DEVICE static int team() { return thread() / team_threads; }
  TENON_DEVICE static int first_row() {
    return warp_of_team() / (threads_n / lanes_n) * lanes_m + lane() / 2 % 2 +
           lane() / (2 * lanes_n) * 2;
  }
  TENON_DEVICE static int first_run() {
    return warp_of_team() % (threads_n / lanes_n) * lanes_n + lane() % 2 +
           lane() / 4 % (lanes_n / 2) * 2;
  }
  TENON_DEVICE static int warp_of_team() { return warp() % (team_threads / 32); }

  TENON_DEVICE static void multiply(float (&sum)[thread_m * thread_n], const float *a,
                                    const float *b) {
    const int tm = first_row(), tn = first_run(), first = team() * (tile_k / teams);
    TENON_UNROLL
    for (int part = 0; part < tile_k / teams; part += 4) {
      const int k = first + part;
      float x[thread_m][4];
      TENON_UNROLL
      for (int i = 0; i < thread_m; ++i)
        detail::load_words(x[i], a + a_tile::at(tm + i * threads_m, k / 4));
      TENON_UNROLL
      for (int kk = 0; kk < 4; ++kk) {
        float w[thread_n];
        TENON_UNROLL
        for (int j = 0; j < thread_n / 4; ++j) {
          float four[4];
          detail::load_words(four, b + b_tile::at(k + kk, j * threads_n + tn));
          TENON_UNROLL
          for (int e = 0; e < 4; ++e)
            w[4 * j + e] = four[e];
        }
        TENON_UNROLL
        for (int i = 0; i < thread_m; ++i) {
          TENON_UNROLL
          for (int j = 0; j < thread_n; ++j)
            sum[i * thread_n + j] = mul_add(x[i][kk], w[j], sum[i * thread_n + j]);
        }
      }
    }
  }

  TENON_DEVICE void complete(float (&own)[own_m * thread_n], const block_part &part,
                             unsigned char *shared) const {
    if constexpr (splits > 1)
      if (!combine_splits<splits, threads>(scratch, part.tile, part.split, own, shared))
        return;
    finish(own, part);
  }

  TENON_DEVICE void finish(const float (&own)[own_m * thread_n], const block_part &part) const {
    const int tm = first_row() + team() * own_m * threads_m, tn = first_run();
    TENON_UNROLL
    for (int i = 0; i < own_m; ++i) {
      const int m = part.m0 + tm + i * threads_m;
      if (m >= problem.rows())
        break;
      TENON_UNROLL
      for (int j = 0; j < thread_n / 4; ++j) {
        const int n = part.n0 + (j * threads_n + tn) * 4, count = min_of(problem.columns() - n, 4);
        if (count <= 0)
          break;
        int point[Problem::rank];
        problem.point(part.slice, m, n, point);
        float four[4];
        TENON_UNROLL
        for (int e = 0; e < 4; ++e)
          four[e] = own[i * thread_n + 4 * j + e];
        apply_body<Problem::along>(body, outs, ins, point, count, four);
      }
    }
  }
};

template <class Config, class X, class W, class Outs, class Ins, class Body,
          class Prologue = no_prologue, class PrologueIns = arguments<>>
contract_simt_kernel<Config, conv_problem<Config, X>, W, Outs, Ins, Body, Prologue, PrologueIns>
conv_simt(Config cfg, X x, W w, Outs outs, Ins ins, Body body, split_scratch scratch = {},
          Prologue prologue = {}, PrologueIns prologue_ins = {}) {
  return {{cfg, x}, w, outs, ins, body, prologue, prologue_ins, scratch};
}

template <class Config, class X, class B, class Outs, class Ins, class Body,
          class Prologue = no_prologue, class PrologueIns = arguments<>>
contract_simt_kernel<Config, matmul_problem<Config, X>, B, Outs, Ins, Body, Prologue, PrologueIns>
matmul_simt(Config cfg, X x, B b, Outs outs, Ins ins, Body body, split_scratch scratch = {},
            Prologue prologue = {}, PrologueIns prologue_ins = {}) {
  return {{cfg, x}, b, outs, ins, body, prologue, prologue_ins, scratch};
}

} // namespace cuda
} // namespace tenon

#endif
