// Defines `row_loader`: brings neighbouring rows of a tensor of 16-bit elements into tiles of
// shared memory, as pipeline() of tile_pipeline.cuh takes it.
//
// Runs of 16 bytes go by cp.async where rows are whole runs and aligned; element by element
// elsewhere. Behind the last row, and behind the last column up to the tile's, stands zero.
#ifndef TENON_RUNTIME_CUDA_TILE_ROW_LOADER_CUH
#define TENON_RUNTIME_CUDA_TILE_ROW_LOADER_CUH

#include "cuda/base/operands.cuh"
#include "cuda/ptx/cp_async.cuh"

namespace tenon {
namespace cuda {

/// `count` rows of Columns elements each, `stride` apart from `rows` on; the tile numbered kt
/// begins with row kt * Tile::rows. Threads take part, of which this one is number `me`. Whole:
/// rows are known to be whole runs at aligned addresses, and there is no code for others.
template <class T, class Stride, class Tile, int Columns, int Threads, class Index,
          bool Whole = false>
class row_loader {
  static constexpr int run = 16 / int(sizeof(T)), runs = Tile::columns / run;
  static constexpr int all = Tile::rows * runs, passes = ceil_div(all, Threads);
  static_assert(Tile::columns % run == 0 && Columns <= Tile::columns, "rows of a tile are runs");

public:
  static constexpr bool is_weights = false;

  TENON_DEVICE row_loader(const T *rows, Stride stride, Index count, int me = thread())
      : rows_(rows), stride_(stride), count_(count), me_(me),
        whole_(Whole || (has_async_copy && Columns % run == 0 && index_t(stride) % run == 0 &&
                         detail::is_aligned<16>(rows))) {
    static_assert(!Whole || Columns % run == 0, "rows are whole runs");
  }

  TENON_DEVICE void issue(T *tile, int kt) const {
    if (!Whole && !whole_)
      return;
    each([&](int row, int column) {
      const Index from = Index(kt) * Tile::rows + row;
      const bool valid = from < count_ && column < Columns;
      ptx::cp_async<16>::copy(tile + Tile::at(row, column / run),
                              valid ? rows_ + from * Index(index_t(stride_)) + column : rows_,
                              valid);
    });
  }
  TENON_DEVICE void fetch(int) const {}
  TENON_DEVICE void put(T *tile, int kt) const {
    if (Whole || whole_)
      return;
    each([&](int row, int column) {
      const Index from = Index(kt) * Tile::rows + row;
      T held[run];
      fetch_run(held, rows_ + from * Index(index_t(stride_)) + column, fixed<1>{},
                from < count_ ? max_of(0, min_of(run, Columns - column)) : 0);
      detail::store_words(tile + Tile::at(row, column / run), held);
    });
  }

private:
  /// f(row, column) for the runs that are this thread's.
  template <class F> TENON_DEVICE void each(F f) const {
    TENON_UNROLL
    for (int i = 0; i < passes; ++i) {
      const int place = me_ + i * Threads;
      if (all % Threads == 0 || place < all)
        f(place / runs, place % runs * run);
    }
  }

  const T *rows_;
  Stride stride_;
  Index count_;
  int me_;
  bool whole_;
};

} // namespace cuda
} // namespace tenon

#endif
