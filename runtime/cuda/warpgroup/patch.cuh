// Defines `warpgroup_patch`: tiles of a convolution of few channels, the first layer of a network,
// multiplied by wgmma straight from a patch of the image (sm_90a only). What becomes of the sums
// say the kernels on it: conv_patch/sm90.cuh and conv_pool/kernel.cuh. fp16 and bf16, fp32 sums.
//
// Algorithm: as conv_patch/kernel.cuh, from the patch that patch_loader.cuh brings: a cell of it is
// 16 bytes, a run of K, and the cells of eight neighbouring outputs at a tap are neighbours. That
// is what wgmma reads without a swizzle, so 64 outputs of a row are one multiplication for two
// runs, whose distance the descriptor says. Where odd windows end within a cell, a second patch has
// those cells without what lies beyond.
//
// Blocks are persistent and bring the weights of their filters once, before the dependency wait.
// The last eight warps fill two patches in turn; the `consumers` warpgroups before them share the
// rows of a tile: one multiplies while another is in its epilogue.
//
// Shared memory: weights [runs, rounded up to pairs][tile_n] of 16 bytes, patches
// [2][1, or 2 with halves][patch_layout], a kilobyte of zeros where runs are odd, barriers; behind
// them what the kernel has of its own.
//
// Config: conv_problem's, one group; channels, filters, kernel, strides and dilations fixed.
// Schedule: tile_n, consumers, multiprocessors (a bound of the grid) and what Tiling needs.
// Weights: as for conv_patch/kernel.cuh.
#ifndef TENON_RUNTIME_CUDA_WARPGROUP_PATCH_CUH
#define TENON_RUNTIME_CUDA_WARPGROUP_PATCH_CUH

#include "cuda/ptx/mbarrier.cuh"
#include "cuda/ptx/proxy_fence.cuh"
#include "cuda/ptx/wgmma.cuh"
#include "cuda/tile/patch_loader.cuh"
#include "cuda/warpgroup/epilogue.cuh"

namespace tenon {
namespace cuda {
namespace detail {

/// Tiles are as wide as one multiplication has rows, of one group.
template <class Config, int Rows> struct wide_patch : Config {
  static constexpr int tile_h = Rows, tile_w = 64, tile_groups = 1;
};

} // namespace detail

/// Tiling: which outputs a tile has. rows: of them, 64 in each; across(cfg), down(cfg): tiles of an
/// image; first_x(cfg, i), first_y(cfg, i): where tile i begins, which may be before the border.
/// Kernel: consume(shared, group) does the work of a warpgroup; own_bytes of shared memory.
template <class Kernel, class Tiling, class Config, class X, class T, class Prologue,
          class PrologueIns>
struct warpgroup_patch {
  using problem_type = conv_problem<Config, X>;
  problem_type problem;
  packed_weights<T> w;
  Prologue prologue;
  PrologueIns prologue_ins;

  using patch = detail::wide_patch<Config, Tiling::rows>;
  using layout = detail::patch_layout<patch>;
  using loader = detail::patch_loader<patch, problem_type, T, Prologue, PrologueIns, true>;
  static constexpr int tile_n = Config::tile_n, consumers = Config::consumers;
  static constexpr int multiplying = 128 * consumers, filling = 256;
  static constexpr int threads = multiplying + filling, blocks_per_sm = 1;
  static constexpr int steps = ceil_div(layout::runs, 2);
  static constexpr int sums = tile_n / 2; // of a thread, for a row of a tile
  static constexpr bool ends_odd = layout::runs % 2 != 0;
  static_assert(layout::cell == 8, "a cell is a run");
  static_assert(sizeof(T) == 2, "16 bits");

  TENON_FN static constexpr bool runs_on(target t) { return t.arch == 900 && t.specific; }
  int shared_bytes() const { return own_at + Kernel::own_bytes; }
  grid blocks() const {
    const int columns = tiles_n();
    return {index_t(columns) * min_of(tiles(), max_of(Config::multiprocessors / columns, 1)), 1, 1};
  }

  static constexpr int run_bytes = tile_n * 16; // of the weights
  static constexpr int patch_bytes = layout::size * 2, patches = layout::has_halves ? 2 : 1;
  static constexpr int stage_bytes = patches * patch_bytes;
  static constexpr int patches_at = 2 * steps * run_bytes;
  static constexpr int zeros_at = patches_at + 2 * stage_bytes;
  static constexpr int barriers_at = zeros_at + (ends_odd ? 1024 : 0);
  struct barriers {
    ptx::mbarrier full[2];  // a patch is there
    ptx::mbarrier empty[2]; // all have read it
  };
  static constexpr int own_at = barriers_at + int(sizeof(barriers));

  TENON_DEVICE void prefetch(unsigned char *shared) const {
    if (thread() == 0) {
      barriers &bar = all(shared);
      TENON_UNROLL
      for (int s = 0; s < 2; ++s) {
        bar.full[s].init(filling / 32);
        bar.empty[s].init(4 * consumers);
      }
      ptx::mbarrier::fence_init();
    }
    for (int i = thread(); i < 2 * steps * tile_n; i += threads) {
      const int run = i / tile_n, n = i % tile_n, filter = n0() + n;
      const bool there = filter < problem.columns() && run < layout::runs;
      ptx::cp_async<16>::copy(shared + i * 16,
                              w.data + (there ? (filter * layout::runs + run) * 8 : 0), there);
    }
    ptx::cp_async_group::commit();
    if constexpr (ends_odd)
      if (thread() < 64)
        *reinterpret_cast<word16 *>(shared + zeros_at + thread() * 16) = word16{};
  }

  TENON_DEVICE void run(unsigned char *shared) const {
    ptx::cp_async_group::wait<0>();
    ptx::proxy_fence::shared();
    sync_block();
    const int group = uniform_warp() / 4;
    if (group >= consumers)
      produce(shared);
    else
      static_cast<const Kernel *>(this)->consume(shared, group);
  }

  /// The first filter of this block.
  TENON_DEVICE int n0() const { return block_x() % tiles_n() * tile_n; }
  /// each(first output, its patch) for the tiles of this block.
  template <class Each> TENON_DEVICE void for_tiles(unsigned char *shared, const Each &each) const {
    barriers &bar = all(shared);
    const int count = tiles();
    position at;
    for (int tile = first_tile(); tile < count; tile += tile_step(), at.next()) {
      const detail::patch_origin first = origin(tile);
      bar.full[at.stage].wait(at.parity);
      each(first, shared + patches_at + at.stage * stage_bytes);
      if (lane() == 0)
        bar.empty[at.stage].arrive();
    }
  }
  /// All of K for row `y` of a tile, 64 outputs.
  TENON_DEVICE static void multiply_row(float (&sum)[sums], const unsigned char *shared,
                                        const unsigned char *patch, int y) {
    ptx::wgmma_group::fence();
    multiply(sum, shared, patch + y * layout::stride_h * layout::pitch * 2);
    ptx::wgmma_group::commit();
    ptx::wgmma_group::wait<0>();
    ptx::wgmma_group::pin(sum);
  }

private:
  using position = detail::ring_position<2>;

  TENON_DEVICE static barriers &all(unsigned char *shared) {
    return *reinterpret_cast<barriers *>(shared + barriers_at);
  }
  TENON_FN int tiles_n() const { return ceil_div(problem.columns(), tile_n); }
  TENON_FN int tiles() const {
    return int(index_t(problem.cfg.batch)) * Tiling::across(problem.cfg) *
           Tiling::down(problem.cfg);
  }
  TENON_DEVICE int first_tile() const { return block_x() / tiles_n(); }
  TENON_DEVICE int tile_step() const { return grid_x() / tiles_n(); }
  TENON_DEVICE detail::patch_origin origin(int tile) const {
    const int across = Tiling::across(problem.cfg), down = Tiling::down(problem.cfg);
    const int band = tile / across, image = band / down;
    return {image, Tiling::first_y(problem.cfg, band - image * down),
            Tiling::first_x(problem.cfg, tile - band * across), n0(), 0};
  }

  TENON_DEVICE void produce(unsigned char *shared) const {
    barriers &bar = all(shared);
    const loader from{problem, prologue, prologue_ins};
    const int count = tiles();
    position at;
    for (int tile = first_tile(); tile < count; tile += tile_step(), at.next()) {
      bar.empty[at.stage].wait(at.parity ^ 1);
      from.template fill_columns<filling>(
          reinterpret_cast<T *>(shared + patches_at + at.stage * stage_bytes), origin(tile),
          thread() - multiplying);
      ptx::proxy_fence::shared();
      sync_warp();
      if (lane() == 0)
        bar.full[at.stage].arrive();
    }
  }

  /// Bytes from a window's first cell to a run.
  TENON_FN static constexpr int run_at(int run) {
    return layout::offset(run) * 2 + (layout::is_half(run) ? patch_bytes : 0);
  }
  /// `window`: the first output's first cell.
  TENON_DEVICE static void multiply(float (&sum)[sums], const unsigned char *shared,
                                    const unsigned char *window) {
    using mma = ptx::wgmma_shared<T, tile_n>;
    using cells = ptx::wgmma_cells;
    const uint64_t b = cells::descriptor(shared, run_bytes);
    TENON_UNROLL
    for (int s = 0; s < steps; ++s) {
      const int run = 2 * s, to_next = ends_odd && s == steps - 1
                                           ? int(shared + zeros_at - window) - run_at(run)
                                           : run_at(run + 1) - run_at(run);
      mma::multiply(sum, cells::descriptor(window + run_at(run), to_next),
                    cells::advance(b, 2 * s * run_bytes), s > 0);
    }
  }
  TENON_FN static constexpr bool runs_ascend() {
    for (int run = 0; run + 1 < layout::runs; run += 2)
      if (run_at(run + 1) < run_at(run))
        return false;
    return true;
  }
  static_assert(runs_ascend(), "descriptors have no distances backwards");
};

} // namespace cuda
} // namespace tenon

#endif
