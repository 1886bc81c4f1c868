// Defines `conv_patch_simt`: convolutions whose groups have few channels, in fp32 on CUDA cores
// straight from a patch of the image.
//
// For grouped convolutions, whose filters fill no tile of contract_simt/kernel.cuh, and for the
// first layer of a network. The same on Tensor Cores: conv_patch/kernel.cuh.
//
// Algorithm: a block computes tile_h x tile_w pixels of tile_groups groups, tile_n filters of each.
// The pixels that their windows cover are brought into shared memory once, widened to fp32, as is
// their weights' part; pixels beyond the image are zero. A warp takes some pixels of a group and
// some filters at a time: lanes_n neighbouring lanes the same pixels and thread_n filters each, the
// others neighbouring pixels, thread_m each. For 16 bytes that all lanes read shared memory is busy
// as long as for several that some read each. A prologue is applied on the way into the patch. The
// weights are there before the dependency wait.
//
// Shared memory, floats: weights [tile_groups][kernel_h][kernel_w][channels][tile_n], patch
// [tile_groups][runs of channels][pixels][channels of a run].
//
// Config: conv_problem's; groups, channels, filters, kernel, strides and dilations fixed. Schedule:
// tile_h, tile_w, tile_groups, tile_n, thread_m, thread_n, lanes_n, warps, least_shared; see
// conv_patch_simt_schedule and, for the last, contract_simt/kernel.cuh.
// Weights: [groups][ceil(filters / tile_n)][kernel_h][kernel_w][channels][tile_n], zero padded;
// tile_groups is 1 where tile_n is less than filters.
#ifndef TENON_RUNTIME_CUDA_CONV_PATCH_SIMT_KERNEL_CUH
#define TENON_RUNTIME_CUDA_CONV_PATCH_SIMT_KERNEL_CUH

#include "cuda/conv_patch_simt/geometry.h"
#include "cuda/tile/patch_loader.cuh"

namespace tenon {
namespace cuda {

/// A schedule's members, to derive a Config from.
template <int TileH, int TileW, int TileGroups, int TileN, int ThreadM, int ThreadN, int LanesN,
          int Warps>
struct conv_patch_simt_schedule {
  static constexpr int tile_h = TileH, tile_w = TileW, tile_groups = TileGroups, tile_n = TileN;
  static constexpr int thread_m = ThreadM, thread_n = ThreadN;
  static constexpr int lanes_n = LanesN, warps = Warps, least_shared = 0;
};

template <class Config, class X, class T, class Outs, class Ins, class Body, class Prologue,
          class PrologueIns>
struct conv_patch_simt_kernel {
  using problem_type = conv_problem<Config, X>;
  problem_type problem;
  packed_weights<T> w;
  Outs outs;
  Ins ins;
  Body body;
  Prologue prologue;
  PrologueIns prologue_ins;

  static constexpr int channels = int(decltype(Config::channels)::value),
                       filters = int(decltype(Config::filters)::value);
  static constexpr int kernel_h = int(decltype(Config::kernel_h)::value),
                       kernel_w = int(decltype(Config::kernel_w)::value);
  static constexpr int stride_h = int(decltype(Config::stride_h)::value),
                       stride_w = int(decltype(Config::stride_w)::value);
  static constexpr int dilation_h = int(decltype(Config::dilation_h)::value),
                       dilation_w = int(decltype(Config::dilation_w)::value);
  static constexpr int tile_h = Config::tile_h, tile_w = Config::tile_w;
  static constexpr int tile_groups = Config::tile_groups, tile_n = Config::tile_n;
  static constexpr int thread_m = Config::thread_m, thread_n = Config::thread_n;
  static constexpr int lanes_n = Config::lanes_n, lanes_m = 32 / lanes_n;
  static constexpr int threads = 32 * Config::warps;
  // Blocks load, multiply and store in turns: several on a multiprocessor fill each other's waits.
  static constexpr int blocks_per_sm = max_of(1, 512 / threads);
  static_assert(tile_groups == 1 || tile_n == filters, "several groups are whole");
  static_assert(tile_n % (thread_n * lanes_n) == 0, "filters are whole parts");

  static constexpr conv_patch_simt_geometry shape = {
      channels, kernel_h, kernel_w,    stride_h, stride_w, dilation_h, dilation_w,
      tile_h,   tile_w,   tile_groups, tile_n,   thread_m, thread_n,   lanes_n};
  static constexpr int vector = shape.vector(); // channels of a run
  static constexpr int group_runs = shape.group_runs(), tile_runs = shape.tile_runs();
  static constexpr int rows = shape.rows(), columns = shape.columns();
  static constexpr int phase = shape.phase(), pitch = shape.pitch(), plane = shape.plane();
  static constexpr int pixels = tile_h * tile_w;
  static constexpr int taps = kernel_h * kernel_w, group_weights = shape.group_weights();
  static constexpr int patch_at = shape.patch_at(); // floats
  static constexpr int part_m = shape.part_m(), part_n = shape.part_n();
  static constexpr int parts_m = shape.parts_m(), parts_n = shape.parts_n();

  int shared_bytes() const { return max_of(int(shape.shared_bytes()), Config::least_shared); }
  grid blocks() const { return detail::blocks_of_tiles<Config>(problem); }

  TENON_DEVICE void prefetch(unsigned char *shared) const {
    const detail::patch_origin at = detail::tile_of_block<Config>(problem);
    const T *from = w.data + problem.weight_offset(at.group, tile_n) + at.n * problem.depth();
    float *to = weights_of(shared);
    constexpr int together = tile_n % 4 == 0 ? 4 : 1;
    const int count = min_of(problem.slices() - at.group, tile_groups) * group_weights;
    for (int i = thread() * together; i < count; i += threads * together) {
      if constexpr (has_async_copy && detail::is_same<T, float>) {
        ptx::cp_async<together * 4>::copy(to + i, from + i, true);
      } else {
        T raw[together];
        float widened[together];
        detail::load_words(raw, from + i);
        TENON_UNROLL
        for (int e = 0; e < together; ++e)
          widened[e] = load_element(&raw[e]);
        detail::store_words(to + i, widened);
      }
    }
  }

  TENON_DEVICE void run(unsigned char *shared) const {
    const detail::patch_origin at = detail::tile_of_block<Config>(problem);
    fill(patch_of(shared), at);
    ptx::cp_async_group::commit();
    ptx::cp_async_group::wait<0>();
    sync_block();
    constexpr int parts = shape.parts();
    for (int part = warp(); part < parts; part += Config::warps) {
      const int group = part / (parts_n * parts_m),
                n = part / parts_m % parts_n * part_n + lane() % lanes_n * thread_n;
      if (at.group + group >= problem.slices())
        return;
      multiply(shared, at, group, n, part % parts_m * part_m + lane() / lanes_n);
    }
  }

private:
  using stored = typename problem_type::element;
  static constexpr bool has_prologue = !detail::is_same<Prologue, no_prologue>;
  static constexpr bool along_channels = problem_type::template may_be_vector<1>();
  static constexpr bool may_whole = vector == 1 || problem_type::template may_be_vector<vector>();
  /// Whether runs of channels are words.
  TENON_DEVICE bool is_whole() const {
    if constexpr (vector == 1)
      return true;
    else
      return may_whole && problem.template is_vector<vector>();
  }

  TENON_DEVICE static float *weights_of(unsigned char *shared) {
    return reinterpret_cast<float *>(shared);
  }
  TENON_DEVICE static float *patch_of(unsigned char *shared) {
    return weights_of(shared) + patch_at;
  }
  /// The place of a pixel of the patch in its plane. Those of an output's first pixel and of a
  /// tap's distance from it add up.
  TENON_FN static constexpr int place(int row, int column) {
    return row * pitch + column % stride_w * phase + column / stride_w;
  }

  //===--- the patch ------------------------------------------------------===//

  /// The i-th run of the patch: neighbouring threads load what is neighbouring in the image.
  struct run_of_patch {
    int row, column, run;
    TENON_DEVICE explicit run_of_patch(int i) {
      constexpr int cells = rows * columns;
      run = along_channels ? i % tile_runs : i / cells;
      const int cell = along_channels ? i / tile_runs : i % cells;
      row = cell / columns;
      column = cell % columns;
    }
    TENON_DEVICE int to() const { return (run * plane + place(row, column)) * vector; }
  };
  struct loaded_run {
    stored raw[vector];
    bool there;
  };

  TENON_DEVICE void fill(float *patch, const detail::patch_origin &at) const {
    constexpr int loads = rows * columns * tile_runs;
    const stored *const image =
        problem.x.data + at.image * index_t(problem.x.strides.template get<0>());
    const bool whole = is_whole();
    if constexpr (may_whole && has_async_copy && !has_prologue && detail::is_same<stored, float>) {
      if (whole) {
        for (int i = thread(); i < loads; i += threads) {
          const run_of_patch r(i);
          bool there;
          const stored *from = image + offset_of(there, at, r);
          ptx::cp_async<vector * 4>::copy(patch + r.to(), from, there);
        }
        return;
      }
    }
    // The loads of several runs are under way together: none depends on a branch.
    constexpr int batch = 4;
    for (int first = thread(); first < loads; first += batch * threads) {
      loaded_run loaded[batch];
      TENON_UNROLL
      for (int b = 0; b < batch; ++b)
        fetch(loaded[b], image, at, run_of_patch(min_of(first + b * threads, loads - 1)), whole);
      TENON_UNROLL
      for (int b = 0; b < batch; ++b)
        if (const int i = first + b * threads; i < loads)
          put(patch, loaded[b], at, run_of_patch(i));
    }
  }
  /// Where a run's channels begin, from the first element of the image; 0 beyond the image, and
  /// `there` is false.
  TENON_DEVICE int offset_of(bool &there, const detail::patch_origin &at,
                             const run_of_patch &r) const {
    const auto &cfg = problem.cfg;
    const auto &strides = problem.x.strides;
    const int y = at.y * stride_h - int(index_t(cfg.pad_top)) + r.row,
              x = at.x * stride_w - int(index_t(cfg.pad_left)) + r.column;
    there = unsigned(y) < unsigned(index_t(cfg.in_h)) &&
            unsigned(x) < unsigned(index_t(cfg.in_w)) &&
            at.group + r.run / group_runs < problem.slices();
    return there ? channel_of(at, r) * int(index_t(strides.template get<1>())) +
                       y * int(index_t(strides.template get<2>())) +
                       x * int(index_t(strides.template get<3>()))
                 : 0;
  }
  TENON_DEVICE static int channel_of(const detail::patch_origin &at, const run_of_patch &r) {
    return at.group * channels + r.run * vector;
  }
  TENON_DEVICE void fetch(loaded_run &to, const stored *image, const detail::patch_origin &at,
                          const run_of_patch &r, bool whole) const {
    const stored *from = image + offset_of(to.there, at, r);
    if (index_t(problem.cfg.in_h) == 0 || index_t(problem.cfg.in_w) == 0) { // none to load
      to = {};
      return;
    }
    if constexpr (may_whole) {
      if (whole) {
        detail::load_words(to.raw, from);
        return;
      }
    }
    const int along = int(index_t(problem.x.strides.template get<1>()));
    TENON_UNROLL
    for (int e = 0; e < vector; ++e)
      to.raw[e] = from[e * along];
  }
  TENON_DEVICE void put(float *patch, const loaded_run &loaded, const detail::patch_origin &at,
                        const run_of_patch &r) const {
    float widened[vector];
    TENON_UNROLL
    for (int e = 0; e < vector; ++e) {
      widened[e] = loaded.there ? load_element(&loaded.raw[e]) : 0.0f;
      if constexpr (has_prologue)
        if (loaded.there)
          widened[e] =
              detail::apply_prologue(prologue, prologue_ins, widened[e], channel_of(at, r) + e);
    }
    detail::store_words(patch + r.to(), widened);
  }

  //===--- the products ---------------------------------------------------===//

  /// Pixels m, m + lanes_m ... of a group of the tile, filters n and following.
  TENON_DEVICE void multiply(unsigned char *shared, const detail::patch_origin &at, int group,
                             int n, int m) const {
    const int channel = (at.group + group) * filters + at.n + n,
              count = min_of(filters - at.n - n, thread_n);
    if (count <= 0)
      return;
    operand_runs<thread_n, Ins> operands;
    constexpr bool whole = problem_type::template has_whole_runs<thread_n>();
    const int first[4] = {at.image, channel, 0, 0};
    operands.template load<1, operand_part::fixed, whole>(ins, first, count);

    const float *windows[thread_m];
    TENON_UNROLL
    for (int i = 0; i < thread_m; ++i) {
      const int inside = min_of(m + lanes_m * i, pixels - 1);
      windows[i] =
          patch_of(shared) + (group * group_runs * plane +
                              place(inside / tile_w * stride_h, inside % tile_w * stride_w)) *
                                 vector;
    }
    const float *weights = weights_of(shared) + group * group_weights + n;
    float sum[thread_m][thread_n] = {};
    constexpr int products = channels * thread_m * thread_n; // of a tap
    TENON_NO_UNROLL
    for (int ky = 0; ky < kernel_h; ++ky) {
      TENON_UNROLL_BY(kernel_w * products <= 512 ? kernel_w : 1)
      for (int kx = 0; kx < kernel_w; ++kx, weights += channels * tile_n)
        add_tap(sum, windows, place(ky * dilation_h, kx * dilation_w) * vector, weights);
    }
    TENON_UNROLL
    for (int i = 0; i < thread_m; ++i) {
      const int y = at.y + (m + lanes_m * i) / tile_w, x = at.x + (m + lanes_m * i) % tile_w;
      if (m + lanes_m * i >= pixels || y >= int(index_t(problem.cfg.out_h)) ||
          x >= int(index_t(problem.cfg.out_w)))
        continue;
      const int point[4] = {at.image, channel, y, x};
      operands.template load<1, operand_part::moving, whole>(ins, point, count);
      apply_to_runs<1, whole>(body, outs, operands, point, count, sum[i]);
    }
  }
  TENON_DEVICE static void add_tap(float (&sum)[thread_m][thread_n],
                                   const float *const (&windows)[thread_m], int distance,
                                   const float *weights) {
    TENON_UNROLL_BY(min_of(group_runs, 16 / vector))
    for (int r = 0; r < group_runs; ++r) {
      float x[thread_m][vector];
      TENON_UNROLL
      for (int i = 0; i < thread_m; ++i)
        detail::load_words(x[i], windows[i] + distance + r * plane * vector);
      TENON_UNROLL
      for (int c = 0; c < vector; ++c) {
        float f[thread_n];
        detail::load_words(f, weights + (r * vector + c) * tile_n);
        TENON_UNROLL
        for (int i = 0; i < thread_m; ++i) {
          TENON_UNROLL
          for (int j = 0; j < thread_n; ++j)
            sum[i][j] = mul_add(x[i][c], f[j], sum[i][j]);
        }
      }
    }
  }
};

template <class Config, class X, class T, class Outs, class Ins, class Body,
          class Prologue = no_prologue, class PrologueIns = arguments<>>
conv_patch_simt_kernel<Config, X, T, Outs, Ins, Body, Prologue, PrologueIns>
conv_patch_simt(Config cfg, X x, packed_weights<T> w, Outs outs, Ins ins, Body body,
                Prologue prologue = {}, PrologueIns prologue_ins = {}) {
  return {{cfg, x}, w, outs, ins, body, prologue, prologue_ins};
}

} // namespace cuda
} // namespace tenon

#endif
