// Defines what convolutions of few channels share that bring the pixels which the windows of a tile
// of outputs cover into shared memory (conv_patch/kernel.cuh, conv_patch/sm90.cuh,
// conv_patch_simt/kernel.cuh): the tiles of blocks, and, for Tensor Cores, `patch_layout` and
// `patch_loader`, whose pixels have their channels innermost and rounded up to whole runs of 8
// elements. Missing channels, and pixels beyond the image, are zero.
#ifndef TENON_RUNTIME_CUDA_TILE_PATCH_LOADER_CUH
#define TENON_RUNTIME_CUDA_TILE_PATCH_LOADER_CUH

#include "cuda/tile/tile_loader.cuh"

namespace tenon {
namespace cuda {
namespace detail {

/// Where elements of the image lie in a patch, and the order of K. A cell is what lies together:
/// of each group one pixel, or two neighbours where 4 channels hold a pixel and windows start at
/// even distances. Cells that neighbouring outputs read at one tap are neighbours, whatever the
/// stride, and cells are an odd number of runs, so that the rows of ldmatrix lie in different
/// banks.
template <class Config> struct patch_layout {
  static constexpr int channels = int(decltype(Config::channels)::value);
  static constexpr int kernel_h = int(decltype(Config::kernel_h)::value),
                       kernel_w = int(decltype(Config::kernel_w)::value);
  static constexpr int stride_h = int(decltype(Config::stride_h)::value),
                       stride_w = int(decltype(Config::stride_w)::value);
  static constexpr int dilation_h = int(decltype(Config::dilation_h)::value),
                       dilation_w = int(decltype(Config::dilation_w)::value);

  static constexpr int fold = channels <= 4 && stride_w % 2 == 0 && dilation_w == 1 ? 2 : 1;
  static constexpr int pixel = fold == 2 ? 4 : ceil_div(channels, 8) * 8; // channels of a group
  static constexpr int tap_runs = fold * pixel / 8;
  static constexpr int taps_w = ceil_div(kernel_w, fold);   // in cells
  static constexpr int runs = kernel_h * taps_w * tap_runs; // of K
  static constexpr int step = stride_w / fold;              // cells from output to output
  static constexpr int rows = (Config::tile_h - 1) * stride_h + (kernel_h - 1) * dilation_h + 1;
  static constexpr int cells = (Config::tile_w - 1) * step + (taps_w - 1) * dilation_w + 1;
  static constexpr int phase = ceil_div(cells, step);
  static constexpr int cell_runs = Config::tile_groups * tap_runs, cell = (cell_runs | 1) * 8;
  static constexpr int pitch = step * phase * cell, size = rows * pitch; // elements

  /// The element where a cell starts.
  TENON_FN static constexpr int place(int row, int column) {
    return row * pitch + (column % step * phase + column / step) * cell;
  }
  /// From the first cell of a window to a run of K.
  TENON_FN static constexpr int offset(int run) {
    const int tap = run / tap_runs;
    return place(tap / taps_w * dilation_h, tap % taps_w * dilation_w) + run % tap_runs * 8;
  }
  static constexpr bool has_halves = fold == 2 && kernel_w % 2 != 0;
  /// Whether the second half of a run is a pixel beyond the window.
  TENON_FN static constexpr bool is_half(int run) {
    return has_halves && run % taps_w == taps_w - 1;
  }
};

/// The first output of a tile, and of its filters and groups.
struct patch_origin {
  int image, y, x, n, group;
};
/// The blocks of a kernel that takes a tile of tile_h x tile_w outputs, tile_n filters and
/// tile_groups groups to each, and the tile of this block.
template <class Config, class Problem> grid blocks_of_tiles(const Problem &problem) {
  const auto &cfg = problem.cfg;
  return {index_t(cfg.batch) * ceil_div(index_t(cfg.out_h), index_t(Config::tile_h)) *
              ceil_div(index_t(cfg.out_w), index_t(Config::tile_w)),
          ceil_div(problem.columns(), Config::tile_n),
          ceil_div(problem.slices(), Config::tile_groups)};
}
template <class Config, class Problem>
TENON_DEVICE patch_origin tile_of_block(const Problem &problem) {
  const int across = ceil_div(int(index_t(problem.cfg.out_w)), Config::tile_w),
            down = ceil_div(int(index_t(problem.cfg.out_h)), Config::tile_h);
  const int tile = block_x() % (across * down);
  return {block_x() / (across * down), tile / across * Config::tile_h,
          tile % across * Config::tile_w, block_y() * Config::tile_n,
          block_z() * Config::tile_groups};
}

/// Halves: behind the patch comes another one, where windows have halves (is_half): its cells lack
/// their second pixel.
template <class Config, class Problem, class Element, class Prologue, class PrologueIns,
          bool Halves = false>
struct patch_loader {
  using layout = patch_layout<Config>;
  using element = Element;
  const Problem &problem;
  const Prologue &prologue;
  const PrologueIns &prologue_ins;

  /// By Team threads, of which this is number `rank`.
  template <int Team>
  TENON_DEVICE void fill(element *patch, const patch_origin &at, int rank) const {
    const bool whole = may_whole && problem.template is_vector<8>();
    if constexpr (async) {
      if (whole) {
        for (int i = rank; i < loads; i += Team) {
          const run_of_patch r(i, whole);
          bool there;
          const stored *from = image_of(at) + pixel_offset(there, at, r, 0) + r.part * 8;
          ptx::cp_async<16>::copy(patch + r.to(), from, there);
        }
        return;
      }
    }
    // The loads of several runs are under way together: none depends on a branch.
    constexpr int batch = 4;
    for (int first = rank; first < loads; first += batch * Team) {
      loaded_run loaded[batch];
      TENON_UNROLL
      for (int b = 0; b < batch; ++b)
        fetch(loaded[b], at, run_of_patch(min_of(first + b * Team, loads - 1), whole), whole);
      TENON_UNROLL
      for (int b = 0; b < batch; ++b)
        if (const int i = first + b * Team; i < loads) {
          const run_of_patch r(i, whole);
          put(patch + r.to(), loaded[b], at, r);
        }
    }
  }

  /// The same where cells are one run: each thread fills those of one column, and computes once
  /// what depends on it.
  template <int Team>
  TENON_DEVICE void fill_columns(element *patch, const patch_origin &at, int rank) const {
    const auto &cfg = problem.cfg;
    static_assert(layout::cell_runs == 1 && layout::cells <= Team, "a thread has a column");
    constexpr int step = Team / layout::cells; // rows at a time
    constexpr int mine = ceil_div(layout::rows, step), batch = ceil_div(mine, ceil_div(mine, 6));
    const int column = rank % layout::cells, first = rank / layout::cells;
    if (first >= step)
      return;
    const stored *const image = image_of(at);
    const int height = int(index_t(cfg.in_h)),
              y0 = at.y * layout::stride_h - int(index_t(cfg.pad_top)),
              down = int(index_t(problem.x.strides.template get<2>()));
    int across[layout::fold];
    bool inside[layout::fold];
    TENON_UNROLL
    for (int pixel = 0; pixel < layout::fold; ++pixel) {
      const int x =
          at.x * layout::stride_w - int(index_t(cfg.pad_left)) + column * layout::fold + pixel;
      inside[pixel] = unsigned(x) < unsigned(index_t(cfg.in_w));
      across[pixel] = x * int(index_t(problem.x.strides.template get<3>()));
    }
    run_of_patch r(0, false);
    element *const to = patch + layout::place(0, column);
    for (int row0 = first; row0 < layout::rows; row0 += batch * step) {
      loaded_run loaded[batch];
      TENON_UNROLL
      for (int b = 0; b < batch; ++b) {
        const int row = row0 + b * step, y = y0 + row;
        const bool there = unsigned(y) < unsigned(height) && row < layout::rows;
        TENON_UNROLL
        for (int pixel = 0; pixel < layout::fold; ++pixel) {
          loaded[b].there[pixel] = there && inside[pixel];
          if (has_no_pixels())
            loaded[b] = {};
          else
            load_pixel(loaded[b], image + (loaded[b].there[pixel] ? y * down + across[pixel] : 0),
                       r, pixel);
        }
      }
      TENON_UNROLL
      for (int b = 0; b < batch; ++b)
        if (const int row = row0 + b * step; row < layout::rows)
          put(to + row * layout::pitch, loaded[b], at, r);
    }
  }

private:
  using stored = typename Problem::element;
  using stored_value = bare<stored>;
  static constexpr int loads = layout::rows * layout::cells * layout::cell_runs;
  static constexpr bool has_prologue = !is_same<Prologue, no_prologue>;
  static constexpr bool may_whole = Problem::template may_be_vector<8>();
  static constexpr bool async =
      has_async_copy && may_whole && !has_prologue && is_same<stored, element>;
  using held = typename either<has_prologue, float, element>::type;

  /// The i-th run of a patch. Neighbouring threads load what is neighbouring in the image: runs of
  /// a pixel, or pixels.
  struct run_of_patch {
    int row, column, run, part; // part: of its group
    TENON_DEVICE run_of_patch(int i, bool whole) {
      run = whole ? i % layout::cell_runs : i / (layout::rows * layout::cells);
      const int cell = whole ? i / layout::cell_runs : i % (layout::rows * layout::cells);
      row = cell / layout::cells;
      column = cell % layout::cells;
      part = run % layout::tap_runs;
    }
    TENON_DEVICE int to() const { return layout::place(row, column) + run * 8; }
  };
  /// Where a pixel's channels begin, from the first element of the image; 0 beyond the image, and
  /// `there` is false.
  TENON_DEVICE int pixel_offset(bool &there, const patch_origin &at, const run_of_patch &r,
                                int pixel) const {
    const auto &cfg = problem.cfg;
    const auto &strides = problem.x.strides;
    const int y = at.y * layout::stride_h - int(index_t(cfg.pad_top)) + r.row,
              x = at.x * layout::stride_w - int(index_t(cfg.pad_left)) + r.column * layout::fold +
                  pixel,
              group = at.group + r.run / layout::tap_runs;
    there = unsigned(y) < unsigned(index_t(cfg.in_h)) &&
            unsigned(x) < unsigned(index_t(cfg.in_w)) && group < problem.slices();
    return there ? group * layout::channels * int(index_t(strides.template get<1>())) +
                       y * int(index_t(strides.template get<2>())) +
                       x * int(index_t(strides.template get<3>()))
                 : 0;
  }
  TENON_DEVICE const stored *image_of(const patch_origin &at) const {
    return problem.x.data + at.image * index_t(problem.x.strides.template get<0>());
  }

  /// What a run holds as it is stored: of each of its pixels some channels, in order.
  static constexpr int run_channels = 8 / layout::fold;
  struct loaded_run {
    stored_value raw[8];
    bool there[layout::fold]; // each pixel
  };
  /// The channel of its group that element e of a run holds.
  TENON_DEVICE static int channel_of_input(const run_of_patch &r, int e) {
    return r.part * 8 + e % run_channels;
  }
  TENON_DEVICE void fetch(loaded_run &to, const patch_origin &at, const run_of_patch &r,
                          bool whole) const {
    if (has_no_pixels()) {
      to = {};
      return;
    }
    TENON_UNROLL
    for (int pixel = 0; pixel < layout::fold; ++pixel) {
      const stored *from = image_of(at) + pixel_offset(to.there[pixel], at, r, pixel);
      if constexpr (may_whole) {
        if (whole) {
          load_words(to.raw, from + r.part * 8);
          return;
        }
      }
      load_pixel(to, from, r, pixel);
    }
  }
  /// None to load in place of those outside.
  TENON_DEVICE bool has_no_pixels() const {
    return index_t(problem.cfg.in_h) == 0 || index_t(problem.cfg.in_w) == 0;
  }
  TENON_DEVICE void load_pixel(loaded_run &to, const stored *from, const run_of_patch &r,
                               int pixel) const {
    const int along = int(index_t(problem.x.strides.template get<1>()));
    TENON_UNROLL
    for (int e = pixel * run_channels; e < (pixel + 1) * run_channels; ++e) {
      // Channels that are missing are not looked at.
      if (layout::tap_runs > 1)
        to.raw[e] = from[min_of(channel_of_input(r, e), layout::channels - 1) * along];
      else if (e % run_channels < layout::channels)
        to.raw[e] = from[e % run_channels * along];
      else
        to.raw[e] = stored_value{};
    }
  }
  TENON_DEVICE void put(element *to, const loaded_run &loaded, const patch_origin &at,
                        const run_of_patch &r) const {
    held eight[8];
    TENON_UNROLL
    for (int e = 0; e < 8; ++e) {
      const int channel = channel_of_input(r, e);
      const bool there = loaded.there[e / run_channels] && channel < layout::channels;
      fetch_element(eight[e], &loaded.raw[e], there);
      if constexpr (has_prologue)
        if (there)
          eight[e] = prepared(eight[e], at, r, channel);
    }
    put_run(to, eight);
    if constexpr (Halves && layout::has_halves) {
      TENON_UNROLL
      for (int e = run_channels; e < 8; ++e)
        fetch_element(eight[e], &loaded.raw[e], false);
      put_run(to + layout::size, eight);
    }
  }
  TENON_DEVICE held prepared(held x, const patch_origin &at, const run_of_patch &r,
                             int channel) const {
    return apply_prologue(prologue, prologue_ins, x,
                          (at.group + r.run / layout::tap_runs) * layout::channels + channel);
  }
};

} // namespace detail
} // namespace cuda
} // namespace tenon

#endif
