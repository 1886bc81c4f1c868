// Defines how contraction kernels bring tiles of A and B into shared memory, in runs of 16 bytes
// along K (A) or N (B; K, where B is K-major).
//
// Three ways, by what the addresses allow:
//   whole runs by cp.async       runs are contiguous and aligned, stored as they are
//   words of 4 bytes by cp.async the same of words, where runs are neither: elements of 4 bytes;
//                                smaller ones whose extents along K are whole words, not runs
//   through registers            no cp.async, another element type, a prologue, or elements that
//                                are not aligned: `fetch` loads, `put` stores later
// `issue` does the asynchronous part; fetch and put do the rest and are empty otherwise.
// Beyond the border of A stands the zero point of x, beyond K and N whatever; B is zero there.
//
// A Layout says where a run lies in its tile: rows, columns (elements), size, at(row, run). Places
// `period` rows apart, or a multiple, are pitch elements a row apart: constants, which addresses
// take for nothing.
#ifndef TENON_RUNTIME_CUDA_TILE_TILE_LOADER_CUH
#define TENON_RUNTIME_CUDA_TILE_TILE_LOADER_CUH

#include "cuda/ptx/cp_async.cuh"
#include "cuda/ptx/words.cuh"
#include "cuda/tile/contraction.cuh"

namespace tenon {
namespace cuda {
namespace detail {

template <bool B, class T, class F> struct either { using type = T; };
template <class T, class F> struct either<false, T, F> { using type = F; };

/// Holds one element where `there`, else zero; unchanged where both types agree.
template <class Held, class T>
TENON_DEVICE void fetch_element(Held &to, const T *from, bool there) {
  if constexpr (is_same<Held, T>) {
    const Held zero = {};
    to = there ? *from : zero;
  } else {
    store_element(&to, there ? load_element(from) : compute_t<T>{});
  }
}
/// The same for an aligned run.
template <int Run, class Held, class T>
TENON_DEVICE void fetch_run(Held (&to)[Run], const T *from, bool there) {
  if constexpr (is_same<Held, T>) {
    load_words_if(there, to, from);
  } else {
    T raw[Run];
    load_words_if(there, raw, from);
    TENON_UNROLL
    for (int e = 0; e < Run; ++e)
      fetch_element(to[e], &raw[e], true);
  }
}
template <int Run, class Held, class T> TENON_DEVICE void put_run(T *to, const Held (&from)[Run]) {
  word16 w;
  static_assert(Run * sizeof(T) == sizeof(w), "a run has 16 bytes");
  if constexpr (is_same<Held, T>) {
    memcpy(&w, static_cast<const void *>(from), sizeof(w));
  } else {
    T raw[Run];
    TENON_UNROLL
    for (int e = 0; e < Run; ++e)
      fetch_element(raw[e], &from[e], true);
    memcpy(&w, static_cast<const void *>(raw), sizeof(w));
  }
  ptx::shared_words::store(to, w);
}

/// Rows of Columns elements, Gap elements between them.
template <int Rows, int Columns, int Gap, int Run> struct plain_tile {
  static constexpr int rows = Rows, columns = Columns, pitch = Columns + Gap, size = Rows * pitch;
  static constexpr int period = 1;
  TENON_DEVICE static int at(int row, int run) { return row * pitch + run * Run; }
};

/// Rows of Columns elements whose 16-byte runs, Run elements each, are exchanged so that the eight
/// rows that ldmatrix reads at one column lie in different banks.
/// Of two places at(row, run) in one row, runs that differ in some bits, the numbers differ in the
/// same bits of runs: at(row, a ^ b) == at(row, a) ^ b * Run.
template <int Rows, int Columns, int Run = 8> struct swizzled_tile {
  static constexpr int rows = Rows, columns = Columns, pitch = Columns, size = Rows * Columns;
  static constexpr int period = 8;
  static constexpr int runs = Columns / Run;
  static_assert(is_power_of_two(runs), "a row is a power of two of runs");
  TENON_DEVICE static int at(int row, int run) {
    constexpr int rows_per_line = runs >= 8 ? 1 : 8 / runs;
    return row * Columns + (run ^ (row / rows_per_line & ((runs < 8 ? runs : 8) - 1))) * Run;
  }
};
} // namespace detail

/// Brings tiles of A. T is the element in shared memory, Threads the block's size.
template <class Problem, class T, class Layout, int Threads, class Prologue, class PrologueIns>
class a_loader {
  using element = typename Problem::element;
  static constexpr int run = 16 / int(sizeof(T)), runs = Layout::columns / run;
  static constexpr int pass_rows = Threads / runs, passes = ceil_div(Layout::rows, pass_rows);
  static constexpr bool even = Layout::rows % pass_rows == 0;
  static constexpr bool has_prologue = !detail::is_same<Prologue, no_prologue>;
  static constexpr bool may_whole = Problem::template may_be_vector<run>();
  static constexpr bool async_whole =
      has_async_copy && detail::is_same<element, T> && !has_prologue && may_whole;
  static constexpr int word = 4 / int(sizeof(T));
  static constexpr bool async_words =
      has_async_copy && detail::is_same<element, T> && !has_prologue &&
      (word == 1 || (!may_whole && Problem::template may_be_vector<word>()));
  // Ways that are known not to be taken are not instantiated: optimising them away takes long.
  static constexpr bool must_whole = may_whole && Problem::template must_be_vector<run>();
  static constexpr bool must_words =
      async_words && (word == 1 || Problem::template must_be_vector<word>());
  static constexpr bool may_take_registers = !(async_whole && must_whole) && !must_words;
  static constexpr bool filled = Problem::zero != 0;
  static_assert(!(filled && has_prologue), "a prologue knows no zero point");
  static_assert(Threads % runs == 0 && Layout::columns % run == 0, "a pass is whole rows");
  static_assert(!has_prologue || passes * run <= 64, "validity bits of a thread's part");
  using bits = typename detail::either<passes * run <= 32, uint32_t, uint64_t>::type;
  using held = typename detail::either<has_prologue, float, T>::type;

public:
  TENON_DEVICE a_loader(const Problem &p, const Prologue &prologue, const PrologueIns &prologue_ins,
                        int m0, int slice)
      : problem_(p), prologue_(prologue), prologue_ins_(prologue_ins), slice_(slice),
        whole_(may_whole && p.template is_vector<run>()),
        words_(word == 1 || (async_words && p.template is_vector<word>())) {
    TENON_UNROLL
    for (int i = 0; i < passes; ++i)
      rows_[i] = p.make_row(m0 + row(i), slice);
  }

  /// Part number Part of Parts of a tile.
  template <int Part = 0, int Parts = 1> TENON_DEVICE void issue(T *tile, int kt) const {
    [[maybe_unused]] constexpr int first = ceil_div(Part * passes, Parts),
                                   end = ceil_div((Part + 1) * passes, Parts);
    if constexpr (async_whole) {
      if (must_whole || whole_) {
        auto column = problem_.make_column(first_k(kt));
        if constexpr (Problem::template is_full<Layout::columns>())
          column.inside = true;
        TENON_UNROLL
        for (int i = first; i < end; ++i) {
          if (!even && row(i) >= Layout::rows)
            break;
          copy<16>(tile + place(i), rows_[i], column);
        }
        return;
      }
    }
    if constexpr (async_words && !must_whole) {
      if (!must_words && !words_)
        return;
      TENON_UNROLL
      for (int e = 0; e < run; e += word) {
        const auto column = problem_.make_column(first_k(kt) + e);
        TENON_UNROLL
        for (int i = first; i < end; ++i) {
          if (!even && row(i) >= Layout::rows)
            break;
          copy<4>(tile + place(i) + e, rows_[i], column);
        }
      }
    }
  }

  TENON_DEVICE void fetch(int kt) {
    if constexpr (may_take_registers) {
      if (!through_registers())
        return;
      valid_ = 0;
      if constexpr (may_whole) {
        if (must_whole || whole_) {
          fetch_runs(kt);
          return;
        }
      }
      if constexpr (!must_whole)
        fetch_elements(kt);
    }
  }

  TENON_DEVICE void put(T *tile, int kt) {
    if constexpr (may_take_registers) {
      if (!through_registers())
        return;
      if constexpr (has_prologue)
        apply_prologue(kt);
      TENON_UNROLL
      for (int i = 0; i < passes; ++i)
        if (even || row(i) < Layout::rows)
          detail::put_run(tile + place(i), held_[i]);
    }
  }

private:
  template <int N> TENON_DEVICE static void fill(T (&run)[N]) {
    TENON_UNROLL
    for (int e = 0; e < N; ++e)
      run[e] = T(Problem::zero);
  }
  template <int Bytes>
  TENON_DEVICE void copy(T *to, const typename Problem::row &row,
                         const typename Problem::column &column) const {
    const bool valid = problem_.holds(row, column);
    if constexpr (filled) {
      if (!valid) {
        T outside[Bytes / int(sizeof(T))];
        fill(outside);
        detail::store_words(to, outside);
        return;
      }
    }
    ptx::cp_async<Bytes>::copy(to, problem_.address(row, column), valid);
  }
  TENON_DEVICE void fetch_runs(int kt) {
    const auto column = problem_.make_column(first_k(kt));
    TENON_UNROLL
    for (int i = 0; i < passes; ++i) {
      const bool valid = problem_.holds(rows_[i], column);
      detail::fetch_run(held_[i], problem_.address(rows_[i], column), valid);
      if constexpr (filled)
        if (!valid)
          fill(held_[i]);
      if constexpr (has_prologue)
        valid_ |= valid ? ((bits(1) << run) - 1) << (run * i) : 0;
    }
  }
  TENON_DEVICE void fetch_elements(int kt) {
    TENON_UNROLL
    for (int e = 0; e < run; ++e) {
      const auto column = problem_.make_column(first_k(kt) + e);
      TENON_UNROLL
      for (int i = 0; i < passes; ++i) {
        const bool valid = problem_.holds(rows_[i], column);
        detail::fetch_element(held_[i][e], problem_.address(rows_[i], column), valid);
        if constexpr (filled)
          if (!valid)
            held_[i][e] = held(Problem::zero);
        if constexpr (has_prologue)
          valid_ |= bits(valid) << (run * i + e);
      }
    }
  }
  TENON_DEVICE void apply_prologue(int kt) {
    TENON_UNROLL
    for (int e = 0; e < run; ++e) {
      const auto column = problem_.make_column(first_k(kt) + e);
      TENON_UNROLL
      for (int i = 0; i < passes; ++i)
        if (valid_ >> (run * i + e) & 1)
          held_[i][e] = detail::apply_prologue(prologue_, prologue_ins_, held_[i][e],
                                               problem_.channel(column, slice_));
    }
  }
  TENON_DEVICE bool through_registers() const {
    if constexpr (async_words)
      return !words_;
    else if constexpr (async_whole)
      return !whole_;
    else
      return true;
  }
  TENON_DEVICE static int my_run() { return thread() % runs; }
  TENON_DEVICE static int row(int pass) { return pass * pass_rows + thread() / runs; }
  TENON_DEVICE static int place(int pass) {
    if constexpr (pass_rows % Layout::period == 0)
      return Layout::at(row(0), my_run()) + pass * pass_rows * Layout::pitch;
    else
      return Layout::at(row(pass), my_run());
  }
  TENON_DEVICE static int first_k(int kt) { return kt * Layout::columns + my_run() * run; }

  const Problem &problem_;
  Prologue prologue_;
  PrologueIns prologue_ins_;
  int slice_;
  bool whole_, words_;
  bits valid_ = 0; // bit run * pass + element
  typename Problem::row rows_[passes];
  held held_[passes][run];
};

/// Brings tiles of B: rows along N, of K-major sources along K.
template <class Source, class T, class Layout, int Threads> class b_loader {
  using element = typename Source::element;
  static constexpr int run = 16 / int(sizeof(T)), runs = Layout::columns / run;
  static constexpr int total = Layout::rows * runs, passes = ceil_div(total, Threads);
  static constexpr bool even = total % Threads == 0;
  static constexpr bool async_whole = has_async_copy && detail::is_same<element, T>;
  static constexpr int word = 4 / int(sizeof(T));
  static constexpr bool async_words = async_whole && (word == 1 || Source::k_major);
  static constexpr bool must_whole = Source::template must_be_vector<run>();
  static constexpr bool may_take_registers = !async_whole || !(must_whole || word == 1);
  static_assert(Layout::columns % run == 0, "rows are whole runs");

public:
  static constexpr bool is_weights = Source::is_weights;

  TENON_DEVICE explicit b_loader(const Source &source)
      : source_(source), whole_(source.template is_vector<run>()),
        words_(word == 1 || (async_words && source.template is_vector<word>())),
        mine_(source.address(k(0, 0, 0), n(0, 0))) {}

  /// Part number Part of Parts of a tile.
  template <int Part = 0, int Parts = 1> TENON_DEVICE void issue(T *tile, int kt) const {
    [[maybe_unused]] constexpr int first = ceil_div(Part * passes, Parts),
                                   end = ceil_div((Part + 1) * passes, Parts);
    if constexpr (async_whole) {
      TENON_UNROLL
      for (int i = first; i < end; ++i) {
        if (!even && row(i) >= Layout::rows)
          break;
        T *to = tile + place(i);
        if (must_whole || whole_) {
          const bool valid = holds(i, kt, 0);
          ptx::cp_async<16>::copy(to, address(i, kt, 0), valid);
          continue;
        }
        if constexpr (async_words && !must_whole) {
          if (words_) {
            TENON_UNROLL
            for (int e = 0; e < run; e += word) {
              const bool valid = holds(i, kt, e);
              ptx::cp_async<4>::copy(to + e, valid ? address(i, kt, e) : source_.any(), valid);
            }
          }
        }
      }
    }
  }

  TENON_DEVICE void fetch(int kt) {
    if constexpr (may_take_registers) {
      if (!through_registers())
        return;
      TENON_UNROLL
      for (int i = 0; i < passes; ++i) {
        const bool mine = even || row(i) < Layout::rows;
        if (must_whole || whole_) {
          detail::fetch_run(held_[i], address(i, kt, 0), mine && holds(i, kt, 0));
          continue;
        }
        if constexpr (!must_whole) {
          TENON_UNROLL
          for (int e = 0; e < run; ++e)
            detail::fetch_element(held_[i][e], address(i, kt, e), mine && holds(i, kt, e));
        }
      }
    }
  }

  TENON_DEVICE void put(T *tile, int) {
    if constexpr (may_take_registers) {
      if (!through_registers())
        return;
      TENON_UNROLL
      for (int i = 0; i < passes; ++i)
        if (even || row(i) < Layout::rows)
          detail::put_run(tile + place(i), held_[i]);
    }
  }

private:
  TENON_DEVICE bool through_registers() const {
    if constexpr (async_whole)
      return !whole_ && !(async_words && words_);
    else
      return true;
  }
  // Where passes are whole rows, they differ by constants.
  static constexpr bool whole_rows = Threads % runs == 0;
  static constexpr int pass_rows = Threads / runs;
  TENON_DEVICE static int row(int pass) {
    return whole_rows ? pass * pass_rows + thread() / runs : (pass * Threads + thread()) / runs;
  }
  TENON_DEVICE static int my_run(int pass) {
    return whole_rows ? thread() % runs : (pass * Threads + thread()) % runs;
  }
  TENON_DEVICE static int place(int pass) {
    if constexpr (whole_rows && pass_rows % Layout::period == 0)
      return Layout::at(row(0), my_run(0)) + pass * pass_rows * Layout::pitch;
    else
      return Layout::at(row(pass), my_run(pass));
  }
  // Element e of this thread's run.
  TENON_DEVICE static int k(int pass, int kt, int e) {
    return Source::k_major ? kt * Layout::columns + my_run(pass) * run + e
                           : kt * Layout::rows + row(pass);
  }
  TENON_DEVICE static int n(int pass, int e) {
    return Source::k_major ? row(pass) : my_run(pass) * run + e;
  }
  TENON_DEVICE bool holds(int pass, int kt, int e) const {
    if constexpr (Source::template is_full<Layout::rows>())
      return true;
    return source_.holds(k(pass, kt, e), n(pass, e));
  }
  TENON_DEVICE const element *address(int pass, int kt, int e) const {
    if constexpr (whole_rows && Source::k_major)
      return mine_ + source_.distance(kt * Layout::columns + e, pass * pass_rows);
    else if constexpr (whole_rows)
      return mine_ + source_.distance(kt * Layout::rows, e) + source_.distance(pass * pass_rows, 0);
    else
      return source_.address(k(pass, kt, e), n(pass, e));
  }

  Source source_;
  bool whole_, words_;
  const element *mine_; // this thread's first
  T held_[passes][run];
};

namespace detail {
/// The tile of block (x, y). Large tiles are what large products have: there blocks that run
/// together take a square of tiles, so that they share much of A and B in the second-level cache.
template <int TileM, int TileN>
TENON_DEVICE void tile_of_block(int tiles_m, int tiles_n, int &m, int &n) {
  m = block_x(), n = block_y();
  if constexpr (TileM * TileN >= 128 * 256) {
    constexpr int group = 2048 / TileM;
    const int index = n * tiles_m + m, first = index / (group * tiles_n) * group,
              rows = min_of(group, tiles_m - first), rest = index - first * tiles_n;
    n = rest / rows;
    m = first + rest - n * rows;
  }
}
} // namespace detail

/// The part of block (x, y, z): tiles of rows, of columns, and splits of slices.
template <int TileM, int TileN, int TileK, int Splits, class Problem>
TENON_DEVICE block_part part_of_block(const Problem &p) {
  const int tiles_k = ceil_div(p.depth(), TileK), each = ceil_div(tiles_k, Splits);
  const int split = block_z() % Splits, slice = block_z() / Splits;
  const int tiles_m = ceil_div(p.rows(), TileM), tiles_n = ceil_div(p.columns(), TileN);
  int m, n;
  detail::tile_of_block<TileM, TileN>(tiles_m, tiles_n, m, n);
  return {m * TileM,
          n * TileN,
          slice,
          split,
          min_of(split * each, tiles_k),
          min_of((split + 1) * each, tiles_k),
          (slice * tiles_n + n) * tiles_m + m};
}

} // namespace cuda
} // namespace tenon

#endif
