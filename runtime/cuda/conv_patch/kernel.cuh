// Defines `conv_patch_kernel`: convolutions whose groups have few channels, on Tensor Cores
// straight from a patch of the image; sm75.cuh and sm80.cuh are two.
//
// For grouped convolutions, whose sums are too narrow for the tiles of contract_mma/kernel.cuh, and
// for the first layer of a network, whose three channels in planes no vector load takes.
//
// Algorithm: a block computes tile_h x tile_w pixels of tile_groups groups, tile_n filters of each.
// The pixels that their windows cover are brought into shared memory once, channels innermost and
// rounded up to whole runs of 8 elements; missing channels, and pixels beyond the image, are zero.
// ldmatrix then reads the rows of A where they lie: a run of K is 8 channels of a tap, or 4 of two
// neighbours. A warp holds the sums of some rows of 16 pixels and some filters, all of K; its
// epilogue turns them through shared memory, so that bodies see runs of 8 neighbouring filters.
// The weights are on their way before the dependency wait.
//
// Shared memory: weights [tile_groups * tile_n][K], patch (patch_layout), 16-bit elements; then the
// sums on their way to the epilogue, in the same place.
//
// Cores: as for contract_mma/kernel.cuh. Config: conv_problem's; channels, filters, kernel, strides
// and dilations fixed. Schedule: tile_h, tile_w, tile_groups, tile_n, warps_m, warps_n; see
// conv_patch_schedule. Weights: [groups * filters][kernel_h][taps_w * fold][pixel], see
// patch_layout, zero padded. Loads are whole runs where channels are a multiple of 8, contiguous
// and aligned, single elements otherwise.
#ifndef TENON_RUNTIME_CUDA_CONV_PATCH_KERNEL_CUH
#define TENON_RUNTIME_CUDA_CONV_PATCH_KERNEL_CUH

#include "cuda/ptx/ldmatrix.cuh"
#include "cuda/tile/patch_loader.cuh"

namespace tenon {
namespace cuda {

/// A schedule's members, to derive a Config from.
template <int TileH, int TileW, int TileGroups, int TileN, int WarpsM, int WarpsN>
struct conv_patch_schedule {
  static constexpr int tile_h = TileH, tile_w = TileW, tile_groups = TileGroups, tile_n = TileN;
  static constexpr int warps_m = WarpsM, warps_n = WarpsN;
};

/// The prologue of bytes: without their zero point, so that what lies outside is zero.
template <int Zero> struct without_zero_point {
  template <class L, class V> TENON_FN V operator()(L, V x) const { return x - V(Zero); }
};
/// What a convolution of Config applies to its operand where it is given nothing.
template <class Config>
using prologue_of_bytes =
    typename detail::choose_type<detail::zero_point_of_x<Config>::value == 0, no_prologue,
                                 without_zero_point<detail::zero_point_of_x<Config>::value>>::type;

template <class Cores, class Config, class X, class T, class Outs, class Ins, class Body,
          class Prologue, class PrologueIns>
struct conv_patch_kernel {
  using problem_type = conv_problem<Config, X>;
  problem_type problem;
  packed_weights<T> w;
  Outs outs;
  Ins ins;
  Body body;
  Prologue prologue;
  PrologueIns prologue_ins;

  using layout = detail::patch_layout<Config>;
  using element = typename Cores::template element<T>;
  using loader = detail::patch_loader<Config, problem_type, element, Prologue, PrologueIns>;
  /// What the body gets: exact integers where bytes are multiplied.
  using sum_type = typename detail::choose_type<sizeof(T) == 1, int, float>::type;
  static constexpr int tile_h = Config::tile_h, tile_w = Config::tile_w;
  static constexpr int tile_groups = Config::tile_groups, tile_n = Config::tile_n;
  static constexpr int warps_m = Config::warps_m, warps_n = Config::warps_n;
  // Blocks load, multiply and store in turns: several on a multiprocessor fill each other's waits.
  static constexpr int threads = 32 * warps_m * warps_n, blocks_per_sm = 512 / threads;
  static constexpr int pixels = tile_h * tile_w;
  static constexpr int blocks_m = ceil_div(pixels, 16 * warps_m);       // of 16 pixels, of a warp
  static constexpr int group_blocks = tile_n / 8;                       // of 8 filters, of a group
  static constexpr int blocks_n = tile_groups * group_blocks / warps_n; // the same, of a warp
  static constexpr int warp_groups = ceil_div(blocks_n, group_blocks);
  static_assert(tile_n % 8 == 0 && tile_groups * group_blocks % warps_n == 0 &&
                    (blocks_n % group_blocks == 0 || group_blocks % blocks_n == 0),
                "a warp takes whole groups, or an even part of one");

  // Rows of weights are an odd number of runs, for the banks.
  static constexpr int weights_pitch = (layout::runs | 1) * 8;
  static constexpr int weights_size = tile_groups * tile_n * weights_pitch;
  static constexpr int turn_pitch = 8 * blocks_n + 4, turn_floats = 16 * turn_pitch;

  TENON_FN static constexpr bool runs_on(target t) { return Cores::runs_on(t); }
  int shared_bytes() const {
    return max_of((weights_size + layout::size) * int(sizeof(element)),
                  warps_m * warps_n * turn_floats * int(sizeof(float)));
  }
  grid blocks() const { return detail::blocks_of_tiles<Config>(problem); }

  TENON_DEVICE void prefetch(unsigned char *shared) const {
    constexpr int total = tile_groups * tile_n * layout::runs;
    const int n0 = block_y() * tile_n, group0 = block_z() * tile_groups;
    for (int i = thread(); i < total; i += threads) {
      const int row = i / layout::runs, run = i % layout::runs;
      const int group = group0 + row / tile_n, n = n0 + row % tile_n;
      const bool valid = group < problem.slices() && n < problem.columns();
      const T *from =
          w.data + (valid ? ((group * problem.columns() + n) * layout::runs + run) * 8 : 0);
      element *to = weights_of(shared) + row * weights_pitch + run * 8;
      if constexpr (has_async_copy && detail::is_same<T, element>) {
        ptx::cp_async<16>::copy(to, from, valid);
      } else {
        element eight[8];
        detail::fetch_run(eight, from, valid);
        detail::put_run(to, eight);
      }
    }
  }

  TENON_DEVICE void run(unsigned char *shared) const {
    const position at = detail::tile_of_block<Config>(problem);
    const loader from{problem, prologue, prologue_ins};
    from.template fill<threads>(patch_of(shared), at, thread());
    ptx::cp_async_group::commit();
    ptx::cp_async_group::wait<0>();
    sync_block();
    float sum[blocks_m * blocks_n * 4] = {};
    multiply(sum, patch_of(shared), weights_of(shared));
    sync_block();
    finish(sum, at, reinterpret_cast<float *>(shared) + warp() * turn_floats);
  }

private:
  using position = detail::patch_origin;
  TENON_DEVICE static element *weights_of(unsigned char *shared) {
    return reinterpret_cast<element *>(shared);
  }
  TENON_DEVICE static element *patch_of(unsigned char *shared) {
    return weights_of(shared) + weights_size;
  }

  //===--- the products ---------------------------------------------------===//

  TENON_DEVICE static int first_row() { return warp() / warps_n * blocks_m * 16; }
  TENON_DEVICE static int first_block() { return warp() % warps_n * blocks_n; }

  TENON_DEVICE static void multiply(float (&sum)[blocks_m * blocks_n * 4], const element *patch,
                                    const element *weights) {
    int rows[blocks_m];
    TENON_UNROLL
    for (int i = 0; i < blocks_m; ++i) {
      const int m = first_row() + 16 * i + lane() % 16, inside = m < pixels ? m : 0;
      rows[i] = layout::place(inside / tile_w * layout::stride_h, inside % tile_w * layout::step) +
                first_block() / group_blocks * layout::tap_runs * 8;
    }
    constexpr int steps = ceil_div(layout::runs, 2);
    if constexpr (steps <= 18) { // offsets are constants
      TENON_UNROLL
      for (int s = 0; s < steps; ++s)
        multiply_step(sum, patch, weights, rows, 2 * s);
    } else {
      TENON_NO_UNROLL
      for (int s = 0; s < steps; ++s)
        multiply_step(sum, patch, weights, rows, 2 * s);
    }
  }

  /// Runs `run` and `run` + 1 of K, the latter zero where there is none.
  TENON_DEVICE static void multiply_step(float (&sum)[blocks_m * blocks_n * 4],
                                         const element *patch, const element *weights,
                                         const int (&rows)[blocks_m], int run) {
    const bool ends = run + 1 == layout::runs;
    const int next = ends ? run : run + 1;
    const int low = layout::offset(run), high = layout::offset(next);
    const element *from = patch + (lane() < 16 ? low : high);
    TENON_UNROLL
    for (int g = 0; g < warp_groups; ++g) {
      unsigned x[blocks_m][4];
      TENON_UNROLL
      for (int i = 0; i < blocks_m; ++i) {
        ptx::ldmatrix_x4::load(x[i], from + rows[i] + g * layout::tap_runs * 8);
        const bool second = lane() % 4 >= 2; // holds the second half of a run
        if (layout::is_half(run) && second)
          x[i][0] = x[i][1] = 0;
        if (ends || (layout::is_half(next) && second))
          x[i][2] = x[i][3] = 0;
      }
      constexpr int blocks = min_of(blocks_n, group_blocks), pair = blocks % 2 == 0 ? 2 : 1;
      TENON_UNROLL
      for (int j = 0; j < blocks; j += pair) {
        unsigned b[2 * pair];
        load_weights(b, weights, first_block() + g * blocks + j, run, next);
        TENON_UNROLL
        for (int k = 0; k < pair; ++k) {
          const unsigned b1 = ends ? 0 : b[2 * k + 1];
          TENON_UNROLL
          for (int i = 0; i < blocks_m; ++i)
            Cores::template multiply<element>(
                reinterpret_cast<float(&)[4]>(sum[(i * blocks_n + g * blocks + j + k) * 4]), x[i],
                b[2 * k], b1);
        }
      }
    }
  }
  /// Two runs of one block of 8 filters, or of two.
  TENON_DEVICE static void load_weights(unsigned (&b)[2], const element *weights, int block,
                                        int run, int next) {
    const element *from = weights + (block * 8 + lane() / 4) * weights_pitch + lane() % 4 * 2;
    b[0] = *reinterpret_cast<const unsigned *>(from + run * 8);
    b[1] = *reinterpret_cast<const unsigned *>(from + next * 8);
  }
  TENON_DEVICE static void load_weights(unsigned (&b)[4], const element *weights, int block,
                                        int run, int next) {
    const int row = block * 8 + lane() / 16 * 8 + lane() % 8;
    ptx::ldmatrix_x4::load(b, weights + row * weights_pitch + (lane() % 16 < 8 ? run : next) * 8);
  }

  TENON_DEVICE void finish(const float (&sum)[blocks_m * blocks_n * 4], const position &at,
                           float *turn) const {
    const auto &cfg = problem.cfg;
    // Where a lane stays in its column of blocks, what is fixed beside the filters is loaded once.
    constexpr bool stays = 32 % blocks_n == 0;
    constexpr bool whole = problem_type::template has_whole_runs<8>();
    operand_runs<8, Ins> operands;
    if constexpr (stays)
      load_fixed(operands, at, lane() % blocks_n);
    TENON_UNROLL
    for (int i = 0; i < blocks_m; ++i) {
      sync_warp();
      TENON_UNROLL
      for (int j = 0; j < blocks_n; ++j) {
        TENON_UNROLL
        for (int e = 0; e < 4; ++e)
          turn[(lane() / 4 + 8 * (e / 2)) * turn_pitch + 8 * j + 2 * (lane() % 4) + e % 2] =
              sum[(i * blocks_n + j) * 4 + e];
      }
      sync_warp();
      for (int part = lane(); part < 16 * blocks_n; part += 32) {
        const int row = part / blocks_n, block = part % blocks_n;
        const int m = first_row() + 16 * i + row;
        const int y = at.y + m / tile_w, x = at.x + m % tile_w;
        const int channel = channel_of(at, block), count = filters_of(at, block);
        if (m >= pixels || y >= int(index_t(cfg.out_h)) || x >= int(index_t(cfg.out_w)) ||
            count <= 0)
          continue;
        float eight[8];
        sum_type sums[8];
        detail::load_words(eight, turn + row * turn_pitch + block * 8);
        TENON_UNROLL
        for (int e = 0; e < 8; ++e)
          sums[e] = sum_type(eight[e]);
        const int point[4] = {at.image, channel, y, x};
        if constexpr (!stays)
          load_fixed(operands, at, block);
        operands.template load<1, operand_part::moving, whole>(ins, point, count);
        apply_to_runs<1, whole>(body, outs, operands, point, count, sums);
      }
    }
  }
  /// Output channel that a block of 8 filters begins with.
  TENON_DEVICE int channel_of(const position &at, int block) const {
    return (at.group + (first_block() + block) / group_blocks) * problem.columns() + at.n +
           (first_block() + block) % group_blocks * 8;
  }
  /// Filters of a block that there are; none or less: no such block.
  TENON_DEVICE int filters_of(const position &at, int block) const {
    const int group = at.group + (first_block() + block) / group_blocks,
              n = at.n + (first_block() + block) % group_blocks * 8;
    return group < problem.slices() ? min_of(problem.columns() - n, 8) : 0;
  }
  TENON_DEVICE void load_fixed(operand_runs<8, Ins> &to, const position &at, int block) const {
    const int count = max_of(filters_of(at, block), 0);
    const int point[4] = {at.image, count > 0 ? channel_of(at, block) : 0, 0, 0};
    constexpr bool whole = problem_type::template has_whole_runs<8>();
    to.template load<1, operand_part::fixed, whole>(ins, point, count);
  }
};

} // namespace cuda
} // namespace tenon

#endif
