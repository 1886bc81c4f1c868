// Defines `normalize`, with means taken over all r:
//
//   y[k, r] = body((x[k, r] - mean) / sqrt(mean of squared deviations + epsilon), ins[k, r]...)
//
// Algorithm: lane_group; a lane works on runs of `vector` elements along the last dimension, every
// Lanes-th run of its row. Rows of up to lanes x held runs are read once and kept in registers, so
// that the squares of deviations (not of values, which cancel) cost no second read; longer ones are
// read three times.
// Config: kept, reduced (dims; both of rank 1 at least), centered (false: the mean is taken as 0).
// Schedule: threads, lanes (threads per row, a power of two up to `threads`), across (neighbouring
// threads take neighbouring rows), vector (divides the last reduced extent where that is not the
// only one), held (runs; 0: read again). x, outs, ins: over kept, then reduced dimensions. Computed
// in f32, f64 for f64.
#ifndef TENON_RUNTIME_CUDA_NORMALIZE_KERNEL_CUH
#define TENON_RUNTIME_CUDA_NORMALIZE_KERNEL_CUH

#include "common/scalar.h"
#include "cuda/base/lane_group.cuh"

namespace tenon {
namespace cuda {

template <class Config, class T, class X, class Outs, class Ins, class Body>
struct normalize_kernel {
  Config cfg;
  T epsilon;
  X x;
  Outs outs;
  Ins ins;
  Body body;

  using index = index_of<Config>;
  static constexpr int threads = Config::threads, blocks_per_sm = 1;
  static constexpr int lanes = Config::lanes, vector = Config::vector, held = Config::held;
  static constexpr int kept_rank = decltype(Config::kept)::rank,
                       reduced_rank = decltype(Config::reduced)::rank;
  static constexpr int rank = kept_rank + reduced_rank, last = rank - 1;
  static_assert(kept_rank > 0 && reduced_rank > 0, "absent dimensions have the extent 1");
  using group = lane_group<threads, lanes, Config::across>;

  TENON_FN static constexpr bool runs_on(target) { return true; }
  int shared_bytes() const { return group::template shared_bytes<T>(); }
  grid blocks() const { return {ceil_div(volume(cfg.kept), index_t(group::results)), 1, 1}; }

  TENON_DEVICE void prefetch(unsigned char *) const {}
  TENON_DEVICE void run(unsigned char *shared) const {
    const index row = index(block_x()) * group::results + group::result();
    const bool mine = row < index(volume(cfg.kept));
    const index n = mine ? index(volume(cfg.reduced)) : 0;
    index at[rank] = {};
    if (mine)
      unravel<kept_rank>(cfg.kept, row, at);

    T stored[held > 0 ? held : 1][vector];
    if constexpr (held > 0) {
      TENON_UNROLL
      for (int r = 0; r < held; ++r)
        if (first_of(r) < n)
          load(stored[r], at, first_of(r), n);
    }
    // f(run, its first element, how many of it belong to the row)
    const auto each_run = [&](auto f) {
      if constexpr (held > 0) {
        TENON_UNROLL
        for (int r = 0; r < held; ++r)
          if (first_of(r) < n)
            f(stored[r], first_of(r), length_of(first_of(r), n));
      } else {
        for (index first = first_of(0); first < n; first += lanes * vector) {
          load(stored[0], at, first, n);
          f(stored[0], first, length_of(first, n));
        }
      }
    };
    const auto sum_of = [&](auto f) {
      T sum = 0;
      each_run([&](const T(&v)[vector], index, int count) {
        TENON_UNROLL
        for (int i = 0; i < vector; ++i)
          sum += i < count ? f(v[i]) : T(0);
      });
      return group::combine(sum, shared, [](T a, T b) { return a + b; });
    };

    T mean = 0;
    if constexpr (Config::centered)
      mean = sum_of([](T v) { return v; }) / T(n);
    const T squares = sum_of([&](T v) { return (v - mean) * (v - mean); });
    const T factor = T(1) / sqrt<scalar_lanes>(squares / T(n) + epsilon);
    each_run([&](const T(&v)[vector], index first, int count) {
      T y[vector];
      TENON_UNROLL
      for (int i = 0; i < vector; ++i)
        y[i] = (v[i] - mean) * factor;
      seek(at, first);
      apply_body<last>(body, outs, ins, at, count, y);
    });
  }

private:
  TENON_DEVICE static index first_of(int run) {
    return (index(run) * lanes + group::lane()) * vector;
  }
  TENON_DEVICE static int length_of(index first, index n) {
    return int(min_of(n - first, index(vector)));
  }
  /// Reads the run that starts at element `first` of the row.
  TENON_DEVICE void load(T (&v)[vector], index (&at)[rank], index first, index n) const {
    seek(at, first);
    load_operand<last>(v, x, at, length_of(first, n));
  }
  TENON_DEVICE void seek(index (&at)[rank], index element) const {
    index inner[reduced_rank];
    unravel<reduced_rank>(cfg.reduced, element, inner);
    TENON_UNROLL
    for (int d = 0; d < reduced_rank; ++d)
      at[kept_rank + d] = inner[d];
  }
};

template <class Config, class T, class X, class Outs, class Ins, class Body>
normalize_kernel<Config, T, X, Outs, Ins, Body> normalize(Config cfg, T epsilon, X x, Outs outs,
                                                          Ins ins, Body body) {
  return {cfg, epsilon, x, outs, ins, body};
}

} // namespace cuda
} // namespace tenon

#endif
