// Defines `conv_pool_sm90`: the first layer of a network and the largest elements of windows of
// what it makes, which memory never holds (warpgroup/patch.cuh; sm_90a only).
//
// A tile is tile_h rows of windows, of which every warpgroup takes as many. It goes through the
// convolution's rows from top to bottom and keeps the larger results in its registers, in pairs of
// neighbouring filters as wgmma leaves the sums. The largest of a column of a window are exchanged
// through shared memory, and the largest of a row of columns is what `body` gets. Rows that windows
// of two warpgroups or tiles share are multiplied twice, columns of two tiles likewise.
//
// Shared memory of its own: a row of results, [64][pitch], of every warpgroup.
//
// Config: warpgroup_patch's; of the windows pool_h and pool_w, pool_stride_h and pool_stride_w (a
// window starts at most one row before the one above it ends), pool_top and pool_left (rows and
// columns before the border), pooled_h and pooled_w. Schedule: tile_h, a multiple of consumers;
// tile_n, consumers, multiprocessors; see conv_pool_sm90_schedule.
// front over (n, k, oh, ow) makes elements of R of the sums; its operands vary along k only. outs
// and ins over (n, k, pooled_h, pooled_w).
#ifndef TENON_RUNTIME_CUDA_CONV_POOL_KERNEL_CUH
#define TENON_RUNTIME_CUDA_CONV_POOL_KERNEL_CUH

#include "cuda/ptx/max_pair.cuh"
#include "cuda/ptx/named_barrier.cuh"
#include "cuda/ptx/round_pair.cuh"
#include "cuda/warpgroup/patch.cuh"

namespace tenon {
namespace cuda {

/// A schedule's members, to derive a Config from. `multiprocessors` bounds the grid.
template <int TileH, int TileN, int Consumers, int Multiprocessors = 132>
struct conv_pool_sm90_schedule {
  static constexpr int tile_h = TileH, tile_n = TileN, consumers = Consumers;
  static constexpr int multiprocessors = Multiprocessors;
};

namespace detail {

template <class Config> struct rows_of_windows {
  static constexpr int overlap = Config::pool_h - Config::pool_stride_h;
  static_assert(overlap == 0 || overlap == 1, "windows share one row at most");
  static_assert(Config::tile_h % Config::consumers == 0, "warpgroups take as many rows");
  static constexpr int rows = Config::tile_h * Config::pool_stride_h + overlap;
  static constexpr int columns = (64 - Config::pool_w) / Config::pool_stride_w + 1; // of windows
  TENON_FN static int across(const Config &cfg) {
    return ceil_div(int(index_t(cfg.pooled_w)), columns);
  }
  TENON_FN static int down(const Config &cfg) {
    return ceil_div(int(index_t(cfg.pooled_h)), Config::tile_h);
  }
  TENON_FN static int first_x(const Config &, int i) {
    return i * columns * Config::pool_stride_w - Config::pool_left;
  }
  TENON_FN static int first_y(const Config &, int i) {
    return i * Config::tile_h * Config::pool_stride_h - Config::pool_top;
  }
};

/// Two elements of R that nothing is smaller than.
template <class R> constexpr unsigned lowest_pair = is_same<R, bf16> ? 0xff80ff80u : 0xfc00fc00u;

} // namespace detail

template <class Config, class X, class T, class R, class FrontIns, class Front, class Outs,
          class Ins, class Body, class Prologue, class PrologueIns>
struct conv_pool_sm90_kernel
    : warpgroup_patch<conv_pool_sm90_kernel<Config, X, T, R, FrontIns, Front, Outs, Ins, Body,
                                            Prologue, PrologueIns>,
                      detail::rows_of_windows<Config>, Config, X, T, Prologue, PrologueIns> {
  using windows = detail::rows_of_windows<Config>;
  using base = warpgroup_patch<conv_pool_sm90_kernel, windows, Config, X, T, Prologue, PrologueIns>;
  using base::problem;
  FrontIns front_ins;
  Front front;
  Outs outs;
  Ins ins;
  Body body;

  static constexpr int tile_n = base::tile_n;
  static constexpr int rows = Config::tile_h / base::consumers; // of windows, of a warpgroup
  static_assert(sizeof(R) == 2, "16 bits");
  // The eight columns and four pairs that a warp stores at a time lie in different banks.
  static constexpr int pitch = tile_n + 8, row_bytes = 64 * pitch * 2;
  static constexpr int own_bytes = base::consumers * row_bytes;

  TENON_DEVICE void consume(unsigned char *shared, int group) const {
    unsigned char *const row = shared + base::own_at + group * row_bytes;
    base::for_tiles(shared, [&](const detail::patch_origin &first, const unsigned char *patch) {
      const int y0 = group * rows * Config::pool_stride_h; // in the tile
      const int window0 = (first.y + Config::pool_top) / Config::pool_stride_h + group * rows;
      const int windows_here = min_of(rows, int(index_t(problem.cfg.pooled_h)) - window0);
      const int last = windows_here * Config::pool_stride_h + windows::overlap;
      pairs largest;
      largest.clear();
      TENON_NO_UNROLL
      for (int y = 0; y < last && windows_here > 0; ++y) {
        pairs here;
        if (unsigned(first.y + y0 + y) < unsigned(index_t(problem.cfg.out_h))) {
          float sum[base::sums];
          base::multiply_row(sum, shared, patch, y0 + y);
          make(here, sum, first.n);
        } else {
          here.clear();
        }
        largest.take(here);
        const int ends = y - (Config::pool_h - 1);
        if (ends < 0 || ends % Config::pool_stride_h != 0)
          continue;
        sync_group(group); // the row before has been read
        largest.store(row);
        sync_group(group);
        finish(row, first, window0 + ends / Config::pool_stride_h);
        if (windows::overlap)
          largest = here;
        else
          largest.clear();
      }
    });
  }

private:
  /// What a thread has of 64 columns: of every eight filters two neighbours of two columns.
  struct pairs {
    unsigned of[tile_n / 8][2];

    TENON_DEVICE void clear() {
      TENON_UNROLL
      for (int j = 0; j < tile_n / 8; ++j)
        of[j][0] = of[j][1] = detail::lowest_pair<R>;
    }
    TENON_DEVICE void take(const pairs &other) {
      TENON_UNROLL
      for (int j = 0; j < tile_n / 8; ++j) {
        TENON_UNROLL
        for (int i = 0; i < 2; ++i)
          of[j][i] = ptx::max_pair<R>::of(of[j][i], other.of[j][i]);
      }
    }
    TENON_DEVICE void store(unsigned char *row) const {
      TENON_UNROLL
      for (int j = 0; j < tile_n / 8; ++j) {
        TENON_UNROLL
        for (int i = 0; i < 2; ++i) {
          const int column = 16 * (warp() % 4) + 8 * i + lane() / 4;
          *reinterpret_cast<unsigned *>(row + (column * pitch + 8 * j + 2 * (lane() % 4)) * 2) =
              of[j][i];
        }
      }
    }
  };

  TENON_DEVICE static void sync_group(int group) { ptx::named_barrier::sync(1 + group, 128); }

  /// What becomes of the sums of a row; n0: the first filter.
  TENON_DEVICE void make(pairs &to, const float (&sum)[base::sums], int n0) const {
    constexpr bool whole = base::problem_type::template has_whole_runs<8>();
    TENON_UNROLL
    for (int j = 0; j < tile_n / 8; ++j) {
      const int n = n0 + 8 * j + 2 * (lane() % 4), filters = min_of(problem.columns() - n, 2);
      const int point[4] = {0, filters > 0 ? n : 0, 0, 0};
      operand_runs<2, FrontIns> operands;
      operands.template load<1, operand_part::all, whole>(front_ins, point, max_of(filters, 0));
      TENON_UNROLL
      for (int i = 0; i < 2; ++i)
        to.of[j][i] =
            ptx::round_pair<R>::of(float(operands.call(front, 0, sum[4 * j + 2 * i])),
                                   float(operands.call(front, 1, sum[4 * j + 2 * i + 1])));
    }
  }

  /// The windows of row `window` of the image, from the largest of their columns.
  TENON_DEVICE void finish(const unsigned char *row, const detail::patch_origin &first,
                           int window) const {
    constexpr bool whole = base::problem_type::template has_whole_runs<8>();
    constexpr int runs = tile_n / 8;
    const auto &cfg = problem.cfg;
    const int window_x = (first.x + Config::pool_left) / Config::pool_stride_w;
    const int count = min_of(windows::columns, int(index_t(cfg.pooled_w)) - window_x);
    for (int i = thread() % 128; i < count * runs; i += 128) {
      const int column = i / runs, n = i % runs * 8;
      const int filters = min_of(problem.columns() - first.n - n, 8);
      if (filters <= 0)
        continue;
      const int left = column * Config::pool_stride_w; // in the row
      unsigned largest[4];
      TENON_UNROLL
      for (int p = 0; p < 4; ++p)
        largest[p] = detail::lowest_pair<R>;
      TENON_UNROLL
      for (int tap = 0; tap < Config::pool_w; ++tap)
        if (unsigned(first.x + left + tap) < unsigned(index_t(cfg.out_w))) {
          unsigned taken[4];
          detail::load_words(
              taken, reinterpret_cast<const unsigned *>(row + ((left + tap) * pitch + n) * 2));
          TENON_UNROLL
          for (int p = 0; p < 4; ++p)
            largest[p] = ptx::max_pair<R>::of(largest[p], taken[p]);
        }
      R elements[8];
      memcpy(static_cast<void *>(elements), largest, sizeof(largest));
      compute_t<R> eight[8];
      TENON_UNROLL
      for (int e = 0; e < 8; ++e)
        eight[e] = load_element(&elements[e]);
      const int point[4] = {first.image, first.n + n, window, window_x + column};
      operand_runs<8, Ins> operands;
      operands.template load<1, operand_part::all, whole>(ins, point, filters);
      apply_to_runs<1, whole>(body, outs, operands, point, filters, eight);
    }
  }
};

/// R: the elements that windows are of.
template <class R, class Config, class X, class T, class FrontIns, class Front, class Outs,
          class Ins, class Body, class Prologue = no_prologue, class PrologueIns = arguments<>>
conv_pool_sm90_kernel<Config, X, T, R, FrontIns, Front, Outs, Ins, Body, Prologue, PrologueIns>
conv_pool_sm90(Config cfg, X x, packed_weights<T> w, FrontIns front_ins, Front front, Outs outs,
               Ins ins, Body body, Prologue prologue = {}, PrologueIns prologue_ins = {}) {
  return {{{cfg, x}, w, prologue, prologue_ins}, front_ins, front, outs, ins, body};
}

} // namespace cuda
} // namespace tenon

#endif
