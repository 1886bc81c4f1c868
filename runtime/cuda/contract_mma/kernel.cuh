// Defines `contract_mma_kernel`: contractions on Tensor Cores by warp-wide mma instructions, for
// every generation that has them: sm75.cuh, sm80.cuh, tf32.cuh, int8.cuh and fp8.cuh.
//
// Algorithm: implicit GEMM. A block computes a tile_m x tile_n tile; tiles of A (tile_m x tile_k)
// and B (tile_k x tile_n) pass through `stages` buffers of shared memory, by cp.async where there
// is one and through registers elsewhere (tile_loader.cuh), swizzled for ldmatrix. A warp holds
// warp_m x warp_n sums in fp32, or of bytes in int32. Where there are teams, each takes its part of
// a tile along K, and in the end they add up (tile/intra_block_split_k.cuh). For the epilogue each
// warp turns its rows through shared memory, so that bodies see, load and store runs of 8
// neighbouring columns. With cp.async the first tiles of weights are on their way before the
// dependency wait.
//
// Shared memory: A [stages][tile_m][tile_k], B [stages][tile_k][tile_n] (K-major:
// [tile_n][tile_k]), the 16-byte runs of a row exchanged by swizzled_tile. Floats that are not
// K-major have rows of [tile_n + 8] instead, for ldmatrix transposes 16-bit elements only: a lane
// reads each of its elements, and the gap spreads what a warp reads over the banks.
//
// Cores: see tensor_cores.cuh. Config: as for contract_simt/kernel.cuh. Operands of other element
// types than the cores' are converted. Schedule: tile_m, tile_n, tile_k, warp_m, warp_n, stages,
// splits, teams, least_shared; see contract_mma_schedule and contract_simt/kernel.cuh. Weights:
// [groups][ceil(filters/tile_n)][kernel_h][kernel_w][channels][tile_n], zero padded, or K-major:
// [groups * filters][kernel_h][kernel_w][channels]. Fast when channels (of a group) are fixed,
// whole runs, contiguous and aligned; right otherwise.
#ifndef TENON_RUNTIME_CUDA_CONTRACT_MMA_KERNEL_CUH
#define TENON_RUNTIME_CUDA_CONTRACT_MMA_KERNEL_CUH

#include "cuda/contract_mma/geometry.h"
#include "cuda/ptx/dp4a.cuh"
#include "cuda/ptx/ldmatrix.cuh"
#include "cuda/ptx/words.cuh"
#include "cuda/tile/fragment_prologue.cuh"
#include "cuda/tile/intra_block_split_k.cuh"
#include "cuda/tile/split_k.cuh"
#include "cuda/tile/tensor_cores_fp8.cuh"
#include "cuda/tile/tile_pipeline.cuh"

namespace tenon {
namespace cuda {

/// A schedule's members, to derive a Config from.
template <int TileM, int TileN, int TileK, int WarpM, int WarpN, int Stages, int Splits = 1,
          int IntraBlockSplitK = 1>
struct contract_mma_schedule {
  static constexpr int tile_m = TileM, tile_n = TileN, tile_k = TileK;
  static constexpr int warp_m = WarpM, warp_n = WarpN, stages = Stages, splits = Splits;
  static constexpr int intra_block_split_k = IntraBlockSplitK, least_shared = 0;
};

/// What a zero point adds to sums of bytes: Zero times the sum of each column of B. A warp holds
/// Blocks blocks of 8 columns.
template <int Zero, int Blocks> struct column_sums {
  int of[Blocks] = {}; // of column lane / 4, every fourth word along K

  template <class Fragment> TENON_DEVICE void add(const Fragment (&b)[Blocks]) {
    TENON_UNROLL
    for (int j = 0; j < Blocks; ++j) {
      TENON_UNROLL
      for (unsigned word : b[j].r)
        of[j] = ptx::dp4a<int8_t>::multiply(0x01010101u, word, of[j]);
    }
  }
  /// Sums lie as mma leaves them.
  template <int Rows, int Count> TENON_DEVICE void take_from(int (&sum)[Count]) {
    static_assert(Count == Rows * Blocks * 4, "4 sums of each block");
    TENON_UNROLL
    for (int j = 0; j < Blocks; ++j) {
      of[j] += shuffle_xor(of[j], 1);
      of[j] += shuffle_xor(of[j], 2);
      TENON_UNROLL
      for (int e = 0; e < 2; ++e) {
        const int lost = Zero * shuffle(of[j], (2 * (lane() % 4) + e) * 4);
        TENON_UNROLL
        for (int i = 0; i < Rows; ++i) {
          sum[(i * Blocks + j) * 4 + e] -= lost;
          sum[(i * Blocks + j) * 4 + e + 2] -= lost;
        }
      }
    }
  }
};
template <int Blocks> struct column_sums<0, Blocks> {
  template <class Fragment> TENON_DEVICE void add(const Fragment &) {}
  template <int Rows, class Sum> TENON_DEVICE void take_from(Sum &) {}
};

template <class Cores, class Config, class Problem, class B, class Outs, class Ins, class Body,
          class Prologue, class PrologueIns>
struct contract_mma_kernel {
  Problem problem;
  B b;
  Outs outs;
  Ins ins;
  Body body;
  Prologue prologue;
  PrologueIns prologue_ins;
  split_scratch scratch;

  static constexpr int tile_m = Config::tile_m, tile_n = Config::tile_n, tile_k = Config::tile_k;
  static constexpr int warp_m = Config::warp_m, warp_n = Config::warp_n;
  static constexpr int stages = Config::stages, splits = Config::splits,
                       teams = Config::intra_block_split_k;
  static constexpr int blocks_m = warp_m / 16, blocks_n = warp_n / 8;
  static constexpr int own_m = blocks_m / teams; // blocks of 16 rows that a warp has in the end

  using source = b_source<Problem, tile_n, B>;
  /// What the cores multiply; operands of other types are converted.
  using element = typename Cores::template element<typename source::element>;
  using element_of_a =
      typename Cores::template element_of_a<typename Problem::element, typename source::element>;
  static_assert(sizeof(element_of_a) == sizeof(element), "tiles of one element size");
  static constexpr contract_mma_geometry shape = {
      tile_m, tile_n,          tile_k,
      warp_m, warp_n,          stages,
      teams,  sizeof(element), !source::k_major && sizeof(element) != 2};
  static constexpr int warps_n = tile_n / warp_n, team_warps = shape.team_warps();
  static constexpr int threads = shape.threads(), blocks_per_sm = 1;
  /// Elements of 16 bytes, and along K of one multiplication.
  static constexpr int run_length = 16 / int(sizeof(element)),
                       depth = Cores::steps * 2 * run_length;
  static_assert(tile_m % warp_m == 0 && tile_n % warp_n == 0 && warp_m % 16 == 0 &&
                    warp_n % 16 == 0 && tile_k % depth == 0 && warp_n <= 256 &&
                    detail::is_power_of_two(warp_n),
                "tiles are whole numbers of warps' parts, those of 16 x 16 x depth");
  static_assert(tile_k % (teams * depth) == 0 && detail::is_power_of_two(teams) &&
                    blocks_m % teams == 0,
                "teams have even parts");

  using a_tile = detail::swizzled_tile<tile_m, tile_k, run_length>;
  using rows_along_n =
      typename detail::either<sizeof(element) == 2,
                              detail::swizzled_tile<tile_k, tile_n, run_length>,
                              detail::plain_tile<tile_k, tile_n, shape.gap, run_length>>::type;
  using b_tile =
      typename detail::either<source::k_major, detail::swizzled_tile<tile_n, tile_k, run_length>,
                              rows_along_n>::type;
  // A prologue is applied to fragments where it can be, and A copied as it is; else on the way.
  static constexpr bool on_fragments = !detail::is_same<Prologue, no_prologue> &&
                                       Problem::on_fragments &&
                                       detail::is_same<typename Problem::element, element>;
  using loader_of_a =
      a_loader<Problem, element_of_a, a_tile, threads,
               typename detail::either<on_fragments, no_prologue, Prologue>::type,
               typename detail::either<on_fragments, arguments<>, PrologueIns>::type>;
  using loader_of_b = b_loader<source, element, b_tile, threads>;

  using sum_type = typename Cores::sum;
  using sums_of_columns = column_sums<Problem::zero, blocks_n>;
  static_assert(Problem::zero == 0 || detail::is_same<sum_type, int>, "zero points of bytes");
  static_assert(!is_promoted<element> || tile_k / teams <= 128, "few products before a promotion");
  static constexpr int all_sums = blocks_m * blocks_n * 4;
  /// A lane's part of a warp's sums.
  struct sums {
    sum_type of[all_sums] = {};
    sums_of_columns columns;
  };
  /// Whether registers hold the fragments of two steps: of 16-bit elements, where a warp has enough
  /// to multiply meanwhile.
  static constexpr bool ahead = sizeof(element) == 2 && blocks_m * blocks_n >= 8;

  using staged = staged_channels<PrologueIns>;
  static constexpr int channels_at = shape.buffer_bytes();
  static_assert(channels_at == stages * (a_tile::size + b_tile::size) * int(sizeof(element)) &&
                    sizeof(sum_type) == 4,
                "as the tiles have it");
  static constexpr int turn_pitch = shape.turn_pitch();
  static constexpr int turned = shape.most_turned(own_m), turned_rows = 16 * turned;
  static_assert(own_m % turned == 0, "sums are turned in even parts");

  TENON_FN static constexpr bool runs_on(target t) { return Cores::runs_on(t); }
  int shared_bytes() const {
    const int channels = on_fragments ? staged::bytes(problem.prologue_channels()) : 0;
    return max_of(int(shape.shared_bytes(channels)), Config::least_shared);
  }
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
    if constexpr (on_fragments) // there with the first tiles
      staged::copy(prologue_ins, shared + channels_at, problem.prologue_channels(), thread(),
                   threads);
    loader_of_a from_a = make_loader(part);
    loader_of_b from_b(source(problem, b, part.slice, part.n0));
    sums sum;
    if constexpr (ahead)
      accumulate_ahead(sum, from_a, from_b, part, shared);
    else
      accumulate(sum, from_a, from_b, part, shared);
    sum.columns.template take_from<blocks_m>(sum.of);
    if constexpr (teams == 1) {
      complete(sum.of, part, shared);
    } else {
      sum_type own[all_sums / teams];
      add_up_teams<teams, 32 * team_warps>(own, sum.of, shared);
      complete(own, part, shared);
    }
  }

private:
  TENON_DEVICE loader_of_a make_loader(const block_part &part) const {
    if constexpr (on_fragments)
      return {problem, {}, {}, part.m0, part.slice};
    else
      return {problem, prologue, prologue_ins, part.m0, part.slice};
  }
  TENON_DEVICE static element_of_a *tile_of_a(unsigned char *shared, int stage) {
    return reinterpret_cast<element_of_a *>(shared) + stage * a_tile::size;
  }
  TENON_DEVICE static element *tile_of_b(unsigned char *shared, int stage) {
    return reinterpret_cast<element *>(shared) + stages * a_tile::size + stage * b_tile::size;
  }

  /// What a warp multiplies at a time: `depth` along K.
  struct fragments {
    typename Cores::template fragment<4 * Cores::steps> x[blocks_m];
    typename Cores::template fragment<2 * Cores::steps> w[blocks_n];
  };
  static constexpr int steps = tile_k / depth / teams; // of a team

  /// The loop over K, a tile after the other.
  TENON_DEVICE void accumulate(sums &sum, loader_of_a &a, loader_of_b &b, const block_part &part,
                               unsigned char *shared) const {
    pipeline<stages>(
        a, b, part, [=](int s) { return tile_of_a(shared, s); },
        [=](int s) { return tile_of_b(shared, s); },
        [&](int stage, int kt) {
          if constexpr (is_promoted<element>) {
            sums of_tile;
            add_tile(of_tile, shared, stage, kt, part.slice);
            TENON_UNROLL
            for (int e = 0; e < all_sums; ++e)
              sum.of[e] += of_tile.of[e];
          } else {
            add_tile(sum, shared, stage, kt, part.slice);
          }
        });
  }
  /// The products of tile `kt`, which lies in `stage`.
  TENON_DEVICE void add_tile(sums &sum, unsigned char *shared, int stage, int kt, int slice) const {
    TENON_UNROLL
    for (int s = 0; s < steps; ++s) {
      fragments f;
      load(f, shared, stage, kt, s, slice);
      multiply(sum, f);
    }
  }
  TENON_DEVICE void accumulate_ahead(sums &sum, loader_of_a &a, loader_of_b &b,
                                     const block_part &part, unsigned char *shared) const {
    pipeline_ahead<stages, steps, (blocks_m * blocks_n < 32), fragments>(
        a, b, part, [=](int s) { return tile_of_a(shared, s); },
        [=](int s) { return tile_of_b(shared, s); },
        [&](fragments &f, int stage, int kt, int s) { load(f, shared, stage, kt, s, part.slice); },
        [&](const fragments &f) { multiply(sum, f); });
  }

  TENON_DEVICE static int team() { return teams == 1 ? 0 : warp() / team_warps; }
  TENON_DEVICE static int warp_of_team() { return teams == 1 ? warp() : warp() % team_warps; }
  TENON_DEVICE static int my_m() { return warp_of_team() / warps_n * warp_m; }
  TENON_DEVICE static int my_n() { return warp_of_team() % warps_n * warp_n; }

  /// Step `s` of the team's part of tile `kt`, which lies in `stage`.
  TENON_DEVICE void load(fragments &f, unsigned char *shared, int stage, int kt, int s,
                         int slice) const {
    const element_of_a *a = tile_of_a(shared, stage);
    const element *b = tile_of_b(shared, stage);
    const int first = team() * steps * depth;
    const int my_a = a_tile::at(my_m() + lane() % 16, lane() / 16) ^ first;
    TENON_UNROLL
    for (int part = 0; part < Cores::steps; ++part) {
      const int at = s * depth + 2 * run_length * part, k = kt * tile_k + first + at;
      [[maybe_unused]] fragment_prologue<element, Problem::template may_be_vector<tile_k>(),
                                         Prologue, typename staged::views>
          on_way;
      if constexpr (on_fragments)
        on_way.load(staged::at(shared + channels_at, problem.prologue_channels()),
                    problem.channel(problem.make_column(k), slice), problem.depth() - k);
      unsigned four[4];
      const ptx::shared_place from(a + (my_a ^ at));
      TENON_UNROLL
      for (int i = 0; i < blocks_m; ++i) {
        if constexpr (Cores::as_loaded) {
          ptx::ldmatrix_x4::load(f.x[i].r, from + 16 * i * a_tile::pitch * int(sizeof(element)));
          if constexpr (on_fragments)
            on_way.apply(prologue, f.x[i].r);
        } else {
          ptx::ldmatrix_x4::load(four, from + 16 * i * a_tile::pitch * int(sizeof(element)));
          if constexpr (on_fragments)
            on_way.apply(prologue, four);
          TENON_UNROLL
          for (int e = 0; e < 4; ++e)
            f.x[i].set(4 * part + e, four[e]);
        }
      }
      TENON_UNROLL
      for (int j = 0; j < blocks_n; j += 2) {
        load_b(four, b, first, 8 * j, at);
        TENON_UNROLL
        for (int e = 0; e < 4; ++e)
          f.w[j + e / 2].set(2 * part + e % 2, four[e]);
      }
    }
  }
  TENON_DEVICE static void multiply(sums &sum, const fragments &f) {
    sum.columns.add(f.w);
    TENON_UNROLL
    for (int i = 0; i < blocks_m; ++i) {
      TENON_UNROLL
      for (int j = 0; j < blocks_n; ++j)
        Cores::template multiply<element_of_a>(
            reinterpret_cast<sum_type(&)[4]>(sum.of[(i * blocks_n + j) * 4]), f.x[i], f.w[j]);
    }
  }
  /// B of two blocks of 8 columns from n on and 32 bytes along K from first + k on, two registers
  /// each. n and k are constants: what depends on the lane is the same for all of them.
  TENON_DEVICE static void load_b(unsigned (&four)[4], const element *b, int first, int n, int k) {
    const int n0 = my_n();
    if constexpr (source::k_major) {
      const int mine = b_tile::at(n0 + lane() / 16 * 8 + lane() % 8, lane() / 8 % 2) ^ first;
      ptx::ldmatrix_x4::load(four, b + (mine ^ k) + n * b_tile::pitch);
    } else if constexpr (sizeof(element) == 2) {
      const int mine = b_tile::at(first + lane() % 16, n0 / run_length + lane() / 16);
      ptx::ldmatrix_x4_transposed::load(four, b + (mine ^ n) + k * b_tile::pitch);
    } else {
      TENON_UNROLL
      for (int e = 0; e < 4; ++e)
        four[e] =
            tenon::detail::bitcast<unsigned>(b[b_tile::at(first + k + lane() % 4 + 4 * (e % 2), 0) +
                                               n0 + n + 8 * (e / 2) + lane() / 4]);
    }
  }

  TENON_DEVICE void complete(sum_type (&own)[own_m * blocks_n * 4], const block_part &part,
                             unsigned char *shared) const {
    if constexpr (splits > 1)
      if (!combine_splits<splits, threads>(scratch, part.tile, part.split, own, shared))
        return;
    finish(own, part, reinterpret_cast<sum_type *>(shared) + warp() * turned_rows * turn_pitch);
  }

  TENON_DEVICE void finish(const sum_type (&own)[own_m * blocks_n * 4], const block_part &part,
                           sum_type *turn) const {
    constexpr int lanes_per_row = warp_n / 8, rows_per_pass = 32 / lanes_per_row;
    constexpr bool whole = Problem::template has_whole_runs<8>();
    const int n = part.n0 + my_n() + lane() % lanes_per_row * 8,
              count = clamp_count(problem.columns() - n);
    const int r0 = lane() / lanes_per_row, m0 = part.m0 + my_m() + 16 * own_m * team() + r0;
    operand_runs<8, Ins> operands;
    int point[Problem::rank];
    problem.point(part.slice, 0, min_of(n, problem.columns() - 1), point);
    operands.template load<Problem::along, operand_part::fixed, whole>(ins, point, count);
    const ptx::shared_place mine(turn + lane() / 4 * turn_pitch + 2 * (lane() % 4));
    TENON_UNROLL
    for (int i = 0; i < own_m; i += turned) {
      fetch_row<whole>(operands, part.slice, m0 + 16 * i, n, count);
      sync_warp();
      TENON_UNROLL
      for (int j = 0; j < turned * blocks_n * 2; ++j)
        ptx::shared_words::store(
            mine + ((j / 2 / blocks_n * 16 + j % 2 * 8) * turn_pitch + j / 2 % blocks_n * 8) *
                       int(sizeof(sum_type)),
            own[i * blocks_n * 4 + j * 2], own[i * blocks_n * 4 + j * 2 + 1]);
      sync_warp();
      // What the body reads is on its way while the row before is computed and stored.
      TENON_NO_UNROLL
      for (int r = 0; r < turned_rows; r += rows_per_pass) {
        const operand_runs<8, Ins> now = operands;
        const int m = m0 + 16 * i + r;
        if (r + rows_per_pass < turned_rows)
          fetch_row<whole>(operands, part.slice, m + rows_per_pass, n, count);
        if (m >= problem.rows() || count == 0)
          continue;
        sum_type eight[8];
        detail::load_words(eight, turn + (r0 + r) * turn_pitch + lane() % lanes_per_row * 8);
        problem.point(part.slice, m, n, point);
        apply_to_runs<Problem::along, whole>(body, outs, now, point, count, eight);
      }
    }
  }
  /// What differs from row to row of what the body reads, for the run in row m that begins at n.
  template <bool Whole>
  TENON_DEVICE void fetch_row(operand_runs<8, Ins> &to, int slice, int m, int n, int count) const {
    const bool inside = m < problem.rows();
    int point[Problem::rank];
    problem.point(slice, inside ? m : 0, min_of(n, problem.columns() - 1), point);
    to.template load<Problem::along, operand_part::moving, Whole>(ins, point, inside ? count : 0);
  }
  TENON_DEVICE static int clamp_count(int left) { return max_of(min_of(left, 8), 0); }
};

/// The kernel of `Cores` for a convolution, and for a matrix product: conv_mma_sm80 and others take
/// the same arguments.
template <class Cores, class Config, class X, class W, class Outs, class Ins, class Body,
          class Prologue = no_prologue, class PrologueIns = arguments<>>
contract_mma_kernel<Cores, Config, conv_problem<Config, X>, W, Outs, Ins, Body, Prologue,
                    PrologueIns>
conv_mma(Config cfg, X x, W w, Outs outs, Ins ins, Body body, split_scratch scratch = {},
         Prologue prologue = {}, PrologueIns prologue_ins = {}) {
  return {{cfg, x}, w, outs, ins, body, prologue, prologue_ins, scratch};
}
template <class Cores, class Config, class X, class B, class Outs, class Ins, class Body,
          class Prologue = no_prologue, class PrologueIns = arguments<>>
contract_mma_kernel<Cores, Config, matmul_problem<Config, X>, B, Outs, Ins, Body, Prologue,
                    PrologueIns>
matmul_mma(Config cfg, X x, B b, Outs outs, Ins ins, Body body, split_scratch scratch = {},
           Prologue prologue = {}, PrologueIns prologue_ins = {}) {
  return {{cfg, x}, b, outs, ins, body, prologue, prologue_ins, scratch};
}

} // namespace cuda
} // namespace tenon

#endif
