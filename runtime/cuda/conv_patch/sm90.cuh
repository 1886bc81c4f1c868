// Defines `conv_patch_sm90`: convolutions of one group of few channels, the first layer of a
// network, on Tensor Cores by wgmma (warpgroup/patch.cuh; sm_90a only).
//
// A tile is tile_h rows of 64 outputs, which the warpgroups take in turn.
//
// Schedule: tile_h, tile_n, consumers, multiprocessors; see conv_patch_sm90_schedule.
#ifndef TENON_RUNTIME_CUDA_CONV_PATCH_SM90_CUH
#define TENON_RUNTIME_CUDA_CONV_PATCH_SM90_CUH

#include "cuda/warpgroup/patch.cuh"

namespace tenon {
namespace cuda {

/// A schedule's members, to derive a Config from. `multiprocessors` bounds the grid.
template <int TileH, int TileN, int Consumers, int Multiprocessors = 132>
struct conv_patch_sm90_schedule {
  static constexpr int tile_h = TileH, tile_n = TileN, consumers = Consumers;
  static constexpr int multiprocessors = Multiprocessors;
};

namespace detail {

template <class Config> struct rows_of_outputs {
  static constexpr int rows = Config::tile_h;
  TENON_FN static int across(const Config &cfg) { return ceil_div(int(index_t(cfg.out_w)), 64); }
  TENON_FN static int down(const Config &cfg) { return ceil_div(int(index_t(cfg.out_h)), rows); }
  TENON_FN static int first_x(const Config &, int i) { return i * 64; }
  TENON_FN static int first_y(const Config &, int i) { return i * rows; }
};

} // namespace detail

template <class Config, class X, class T, class Outs, class Ins, class Body, class Prologue,
          class PrologueIns>
struct conv_patch_sm90_kernel
    : warpgroup_patch<conv_patch_sm90_kernel<Config, X, T, Outs, Ins, Body, Prologue, PrologueIns>,
                      detail::rows_of_outputs<Config>, Config, X, T, Prologue, PrologueIns> {
  using base = warpgroup_patch<conv_patch_sm90_kernel, detail::rows_of_outputs<Config>, Config, X,
                               T, Prologue, PrologueIns>;
  using base::problem;
  Outs outs;
  Ins ins;
  Body body;

  static constexpr int own_bytes = 0;

  TENON_DEVICE void consume(unsigned char *shared, int group) const {
    using pixels = tile_pixels<typename base::problem_type, 1, 64>;
    using epilogue = warpgroup_epilogue<pixels, Outs, Ins, Body, base::tile_n, 1>;
    block_part part{};
    part.n0 = base::n0();
    base::for_tiles(shared, [&](const detail::patch_origin &first, const unsigned char *patch) {
      const int rows = min_of(Config::tile_h, int(index_t(problem.cfg.out_h)) - first.y);
      TENON_NO_UNROLL
      for (int y = group; y < rows; y += base::consumers) {
        const pixels outputs{problem, {first.image, 0, first.y + y, first.x}};
        const epilogue then(outputs, outs, ins, body, part, 0);
        typename epilogue::runs reads;
        then.fetch_first(reads);
        float sum[base::sums];
        base::multiply_row(sum, shared, patch, y);
        then.finish(sum, reads);
      }
    });
  }
};

template <class Config, class X, class T, class Outs, class Ins, class Body,
          class Prologue = no_prologue, class PrologueIns = arguments<>>
conv_patch_sm90_kernel<Config, X, T, Outs, Ins, Body, Prologue, PrologueIns>
conv_patch_sm90(Config cfg, X x, packed_weights<T> w, Outs outs, Ins ins, Body body,
                Prologue prologue = {}, PrologueIns prologue_ins = {}) {
  return {{{cfg, x}, w, prologue, prologue_ins}, outs, ins, body};
}

} // namespace cuda
} // namespace tenon

#endif
