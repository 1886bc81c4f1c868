// Defines `scatter`: rows of a tensor replaced by, or combined with, rows of another at indices
// that are known at run time, in place:
//
//   y[indices[i], ...] = Combiner(y[indices[i], ...], updates[i, ...]) for each i in row-major
//   order
//
// An index outside the first dimension does nothing. Combiner: of common/combiners.h.
//
// Algorithm: one thread for each element of the updates. Those that meet in one element of y are
// done by the thread of the first of them, in order: a run gives the same bits as any other, at the
// price of reading all indices in every thread. Config: space (dims of y), rows (dims of the
// indices), inner (dims of y without the first). y: view over space; indices: view over rows;
// updates: view over (rows..., inner...).
#ifndef TENON_RUNTIME_CUDA_SCATTER_CUH
#define TENON_RUNTIME_CUDA_SCATTER_CUH

#include "common/combiners.h"
#include "cuda/operands.cuh"

namespace tenon {
namespace cuda {

template <class Combiner, class Config, class Indices, class Updates, class Y>
struct scatter_kernel {
  Config cfg;
  Indices indices;
  Updates updates;
  Y y;

  static constexpr int picked = decltype(Config::rows)::rank, inner = decltype(Config::inner)::rank;
  static constexpr int threads = 128, blocks_per_sm = 1;

  TENON_FN static constexpr bool runs_on(target) { return true; }
  int shared_bytes() const { return 0; }
  grid blocks() const {
    return {ceil_div(volume(cfg.rows) * volume(cfg.inner), index_t(threads)), 1, 1};
  }

  TENON_DEVICE void prefetch(unsigned char *) const {}
  TENON_DEVICE void run(unsigned char *) const {
    const int rows = int(volume(cfg.rows)), elements = int(volume(cfg.inner));
    const int n = block_x() * threads + thread(), mine = n / max_of(elements, 1);
    if (mine >= rows)
      return;
    const int64_t to = index_of_row(mine);
    if (to < 0 || to >= int64_t(index_t(cfg.space.head)))
      return;
    for (int i = 0; i < mine; ++i)
      if (index_of_row(i) == to)
        return; // that thread does it
    int place[inner + 1], from[picked + inner + 1];
    place[0] = int(to);
    unravel_into<inner>(cfg.inner, n - mine * elements, place + 1);
    for (int d = 0; d < inner; ++d)
      from[picked + d] = place[1 + d];
    const auto element = y.data + offset(y.strides, place);
    for (int i = mine; i < rows; ++i) {
      if (index_of_row(i) != to)
        continue;
      unravel_into<picked>(cfg.rows, i, from);
      store_element(element,
                    Combiner{}(load_element(element),
                               load_element(updates.data + offset(updates.strides, from))));
    }
  }

private:
  TENON_DEVICE int64_t index_of_row(int i) const {
    int at[picked + 1];
    unravel_into<picked>(cfg.rows, i, at);
    return load_element(indices.data + offset(indices.strides, at));
  }
  /// All coordinates of a linear index; a space without dimensions has none.
  template <int Rank, class Space>
  TENON_DEVICE static void unravel_into(const Space &space, int n, int *to) {
    if constexpr (Rank > 0) {
      int at[Rank];
      unravel<Rank>(space, n, at);
      TENON_UNROLL
      for (int d = 0; d < Rank; ++d)
        to[d] = at[d];
    }
  }
};

template <class Combiner, class Config, class Indices, class Updates, class Y>
scatter_kernel<Combiner, Config, Indices, Updates, Y> scatter(Config cfg, Indices indices,
                                                              Updates updates, Y y) {
  return {cfg, indices, updates, y};
}

} // namespace cuda
} // namespace tenon

#endif
