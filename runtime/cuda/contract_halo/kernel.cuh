// Defines `conv_halo_sm90`: convolutions in two dimensions with windows of several taps and strides
// of 1 on Tensor Cores by wgmma, with the copy engine as loader (sm_90a only), where the weights of
// a tile's filters fit into shared memory. fp16 and bf16, fp32 sums.
//
// Algorithm: a tile is 8 pixels wide and tile_m / 8 high. What its windows cover, the tile with its
// halo, comes into shared memory once, tile_k channels at a time, and every tap multiplies from
// there: a row of 8 pixels is 8 rows of a wgmma operand wherever it begins, for the swizzle goes by
// addresses, and the next 8 lie a row of the patch further. contract_wgmma/kernel.cuh brings each
// pixel once for every tap.
//
// Blocks are persistent. The weights of tile_n filters, all taps and channels of them, come once.
// Each of the `consumers` warpgroups has tiles of its own, `stages` buffers, and a warp that fills
// them: one multiplies while another is in its epilogue. A block keeps to its filters; the
// warpgroups of all blocks that have the same take tiles of pixels in turn.
//
// Shared memory: weights [taps][chunks of channels][tile_n x tile_k], patches
// [consumers][stages][patch], all swizzled tiles (ptx/wgmma.cuh), then the barriers.
//
// Config: as for contract_simt/kernel.cuh, one group, strides of 1. Schedule: tile_m, tile_n,
// tile_k, consumers, stages, multiprocessors; see contract_halo_schedule. Operands: as tensor maps
// can describe them (tensor_map.h). Weights: tensor_loader.cuh.
#ifndef TENON_RUNTIME_CUDA_CONTRACT_HALO_KERNEL_CUH
#define TENON_RUNTIME_CUDA_CONTRACT_HALO_KERNEL_CUH

#include "cuda/ptx/elect.cuh"
#include "cuda/ptx/proxy_fence.cuh"
#include "cuda/warpgroup/epilogue.cuh"
#include "cuda/warpgroup/products.cuh"
#include "cuda/warpgroup/tensor_loader.cuh"

namespace tenon {
namespace cuda {

/// A schedule's members, to derive a Config from. `multiprocessors` bounds the grid.
template <int TileM, int TileN, int TileK, int Consumers, int Stages, int Multiprocessors = 132>
struct contract_halo_schedule {
  static constexpr int tile_m = TileM, tile_n = TileN, tile_k = TileK, consumers = Consumers;
  static constexpr int stages = Stages, multiprocessors = Multiprocessors;
};

namespace detail {

/// Tiles of pixels, 8 wide and Height high, and what their windows cover.
template <class Problem, int Height> struct halo {
  using config = decltype(Problem::cfg);
  static constexpr int width = 8;
  const Problem &problem;

  TENON_FN static int covered_w(const config &cfg) {
    return width + int((cfg.kernel_w - 1) * cfg.dilation_w);
  }
  TENON_FN static int covered_h(const config &cfg) {
    return Height + int((cfg.kernel_h - 1) * cfg.dilation_h);
  }
  TENON_FN int across() const { return ceil_div(int(index_t(problem.cfg.out_w)), width); }
  TENON_FN int down() const { return ceil_div(int(index_t(problem.cfg.out_h)), Height); }
  TENON_FN int count() const { return int(index_t(problem.cfg.batch)) * across() * down(); }
  /// The first pixel of a tile.
  TENON_DEVICE pixel first(int tile) const {
    const int row = tile / across(), image = row / down();
    return {image, 0, (row - image * down()) * Height, (tile - row * across()) * width};
  }
};

} // namespace detail

template <class Config, class Problem, class W, class Outs, class Ins, class Body>
struct contract_halo_sm90_kernel {
  Problem problem;
  W w;
  Outs outs;
  Ins ins;
  Body body;
  tensor_map map_a = {}, map_w = {};

  static constexpr int tile_m = Config::tile_m, tile_n = Config::tile_n, tile_k = Config::tile_k;
  static constexpr int consumers = Config::consumers, stages = Config::stages;
  static constexpr int blocks_m = tile_m / 64;
  static constexpr int threads = (128 + 32) * consumers, blocks_per_sm = 1;
  static_assert(tile_m % 64 == 0 && tile_n % 32 == 0, "tiles are whole blocks");
  static_assert(blocks_m * tile_n <= 128, "sums fit in registers");
  static_assert(!Problem::is_volume, "two dimensions");
  static_assert(stages >= 2, "a buffer is released during the next one's multiplications");

  using halo = detail::halo<Problem, tile_m / 8>;
  using loader_of_w = tensor_b<Problem, W, tile_n, tile_k>;
  using element = typename Problem::element;
  using w_tile = typename loader_of_w::tile;
  static constexpr int span = w_tile::span; // of a pixel's channels, too
  using mma = ptx::wgmma_shared<element, tile_n>;
  static_assert(detail::is_same<element, typename loader_of_w::element> && sizeof(element) == 2,
                "operands of one type");
  static_assert(tile_k % mma::k == 0, "chunks are whole steps");
  using pixels = tile_pixels<Problem, tile_m / 8, halo::width>;
  using epilogue = warpgroup_epilogue<pixels, Outs, Ins, Body, tile_n, blocks_m>;

  TENON_FN static constexpr bool runs_on(target t) { return t.arch == 900 && t.specific; }
  int shared_bytes() const { return barriers_at() + int(sizeof(barriers)); }
  grid blocks() const {
    const int columns = tiles_n(), of_pixels = ceil_div(halo{problem}.count(), consumers);
    return {index_t(columns) * min_of(of_pixels, max_of(Config::multiprocessors / columns, 1)), 1,
            1};
  }
  status complete() {
    const auto &cfg = problem.cfg;
    const auto &strides = problem.x.strides;
    const index_t size = index_t(sizeof(element));
    TENON_CHECK(loader_of_w::encode(map_w, problem, w));
    return cuda::encode(
        map_a, tensor_box{problem.x.data,
                          detail::tensor_element_of<element>(),
                          4,
                          {index_t(cfg.channels), index_t(cfg.in_w), index_t(cfg.in_h),
                           index_t(cfg.batch), 1},
                          {size, strides.template get<3>() * size, strides.template get<2>() * size,
                           strides.template get<0>() * size, 0},
                          {tile_k, halo::covered_w(cfg), halo::covered_h(cfg), 1, 1},
                          span});
  }

  TENON_DEVICE void prefetch(unsigned char *shared) const {
    if (uniform_warp() == 4 * consumers && ptx::elect::one()) {
      barriers &bar = all(shared);
      bar.weights.init(1);
      TENON_UNROLL
      for (int c = 0; c < consumers; ++c) {
        TENON_UNROLL
        for (int s = 0; s < stages; ++s) {
          bar.full[c][s].init(1);
          bar.empty[c][s].init(4);
        }
      }
      ptx::mbarrier::fence_init();
      ptx::proxy_fence::shared();
      ptx::prefetch_tensor_map::hint(map_a);
      ptx::prefetch_tensor_map::hint(map_w);
      bar.weights.arrive_expecting(weight_bytes());
      loader_of_w from(problem, w, n0(), 0, 0);
      TENON_NO_UNROLL
      for (int i = 0; i < steps(); ++i)
        from.load(shared + i * w_tile::bytes, map_w, bar.weights);
    }
    sync_block(); // barriers are ready
  }

  TENON_DEVICE void run(unsigned char *shared) const {
    const int warp = uniform_warp();
    if (warp < 4 * consumers)
      consume(shared, warp / 4);
    else if (ptx::elect::one())
      produce(shared, warp - 4 * consumers);
  }

private:
  struct barriers {
    ptx::mbarrier weights;                  // all have landed
    ptx::mbarrier full[consumers][stages];  // a patch has landed
    ptx::mbarrier empty[consumers][stages]; // all warps have read it
  };
  using position = detail::ring_position<stages>;

  TENON_FN int tiles_n() const { return ceil_div(problem.columns(), tile_n); }
  TENON_FN int chunks() const { return ceil_div(int(index_t(problem.cfg.channels)), tile_k); }
  TENON_FN int steps() const { return chunks() * problem.taps(); }
  TENON_FN int weight_bytes() const { return steps() * w_tile::bytes; }
  TENON_FN int patch_bytes() const {
    return halo::covered_w(problem.cfg) * halo::covered_h(problem.cfg) * span;
  }
  /// From one patch to the next: swizzles have patterns of a kilobyte.
  TENON_FN int patch_pitch() const { return ceil_div(patch_bytes(), 1024) * 1024; }
  TENON_FN int barriers_at() const { return weight_bytes() + consumers * stages * patch_pitch(); }
  TENON_DEVICE barriers &all(unsigned char *shared) const {
    return *reinterpret_cast<barriers *>(shared + barriers_at());
  }
  TENON_DEVICE unsigned char *patches(unsigned char *shared, int consumer) const {
    return shared + weight_bytes() + consumer * stages * patch_pitch();
  }
  TENON_DEVICE int n0() const { return block_x() % tiles_n() * tile_n; }
  TENON_DEVICE int first_tile(int consumer) const {
    return block_x() / tiles_n() * consumers + consumer;
  }
  TENON_DEVICE int tile_step() const { return grid_x() / tiles_n() * consumers; }

  TENON_DEVICE void produce(unsigned char *shared, int consumer) const {
    const auto &cfg = problem.cfg;
    barriers &bar = all(shared);
    unsigned char *const to = patches(shared, consumer);
    const int count = halo{problem}.count();
    position at;
    for (int tile = first_tile(consumer); tile < count; tile += tile_step()) {
      const pixel first = halo{problem}.first(tile);
      const int x = first.x - int(index_t(cfg.pad_left)), y = first.y - int(index_t(cfg.pad_top));
      TENON_NO_UNROLL
      for (int chunk = 0; chunk < chunks(); ++chunk, at.next()) {
        ptx::mbarrier &full = bar.full[consumer][at.stage];
        bar.empty[consumer][at.stage].wait(at.parity ^ 1);
        full.arrive_expecting(patch_bytes());
        ptx::tensor_copy_tiled::load(to + at.stage * patch_pitch(), map_a, full,
                                     {chunk * tile_k, x, y, first.image});
      }
    }
  }

  TENON_DEVICE void consume(unsigned char *shared, int consumer) const {
    barriers &bar = all(shared);
    unsigned char *const patch = patches(shared, consumer);
    const int count = halo{problem}.count();
    block_part part{};
    part.n0 = n0();
    position at;
    bar.weights.wait(0);
    for (int tile = first_tile(consumer); tile < count; tile += tile_step()) {
      const pixels rows{problem, halo{problem}.first(tile)};
      const epilogue then(rows, outs, ins, body, part, 0);
      typename epilogue::runs first;
      then.fetch_first(first);
      warpgroup_sums<mma, blocks_m> sum;
      int before = 0;
      TENON_NO_UNROLL
      for (int chunk = 0; chunk < chunks(); ++chunk, at.next()) {
        bar.full[consumer][at.stage].wait(at.parity);
        multiply(sum, patch + at.stage * patch_pitch(), shared + chunk * w_tile::bytes, chunk);
        ptx::wgmma_group::wait<1>();
        if (chunk > 0)
          release(bar.empty[consumer][before]);
        before = at.stage;
      }
      ptx::wgmma_group::wait<0>();
      ptx::wgmma_group::pin(sum.of);
      release(bar.empty[consumer][before]);
      then.finish(sum.of, first);
    }
  }
  TENON_DEVICE static void release(ptx::mbarrier &empty) {
    if (lane() == 0)
      empty.arrive();
  }

  /// All taps of a chunk of channels, each a group.
  TENON_DEVICE void multiply(warpgroup_sums<mma, blocks_m> &sum, const unsigned char *patch,
                             const unsigned char *weights, int chunk) const {
    using tile = ptx::wgmma_tile<span>;
    const auto &cfg = problem.cfg;
    const int line = halo::covered_w(cfg) * span;
    const uint64_t first = tile::descriptor(patch, 16, line);
    uint64_t b = w_tile::descriptor(weights);
    TENON_NO_UNROLL
    for (int y = 0; y < int(index_t(cfg.kernel_h)); ++y) {
      TENON_NO_UNROLL
      for (int x = 0; x < int(index_t(cfg.kernel_w)); ++x) {
        const uint64_t a = tile::advance(first, y * int(index_t(cfg.dilation_h)) * line +
                                                    x * int(index_t(cfg.dilation_w)) * span);
        ptx::wgmma_group::fence();
        TENON_UNROLL
        for (int k = 0; k < tile_k; k += mma::k) {
          TENON_UNROLL
          for (int i = 0; i < blocks_m; ++i)
            mma::multiply(sum.block(i), tile::advance(a, 8 * i * line + k * int(sizeof(element))),
                          tile::advance(b, w_tile::offset(0, k)), chunk + y + x + k > 0);
        }
        ptx::wgmma_group::commit();
        b = tile::advance(b, chunks() * w_tile::bytes);
      }
    }
  }
};

template <class Config, class X, class W, class Outs, class Ins, class Body>
contract_halo_sm90_kernel<Config, conv_problem<Config, X>, W, Outs, Ins, Body>
conv_halo_sm90(Config cfg, X x, W w, Outs outs, Ins ins, Body body) {
  return {{cfg, x}, w, outs, ins, body};
}

} // namespace cuda
} // namespace tenon

#endif
