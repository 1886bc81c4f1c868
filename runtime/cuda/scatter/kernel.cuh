// Defines `scatter`: rows of a tensor replaced by, or combined with, rows of another at indices
// that are known at run time, in place:
//
//   y[indices[i], ...] = Combiner(y[indices[i], ...], updates[i, ...])
//
// for each i in row-major order.
//
// An index outside the first dimension does nothing. Updates that meet in one element of y are
// taken in order: a run gives the same bits as any other. Combiner: of common/combiners.h.
//
// Algorithm: one thread for each element of the updates. Those that meet are done by the thread of
// the first of them, at the price of reading all indices in every thread: the square of their
// number. Indices, and the updates that they call for, are loaded a batch at a time, so that the
// loads wait together; the element of y stands in a register meanwhile. Of many rows see
// cuda/scatter/last.cuh and cuda/scatter/sorted.cuh.
//
// Config: space (dims of y), rows (dims of the indices), inner (dims of y without the first). y:
// view over space; indices: view over rows; updates: view over (rows..., inner...).
#ifndef TENON_RUNTIME_CUDA_SCATTER_KERNEL_CUH
#define TENON_RUNTIME_CUDA_SCATTER_KERNEL_CUH

#include "common/combiners.h"
#include "cuda/base/operands.cuh"

namespace tenon {
namespace cuda {

namespace detail {
/// All coordinates of a linear index; a space without dimensions has none.
template <int Rank, class Space>
TENON_DEVICE void unravel_into(const Space &space, int n, int *to) {
  if constexpr (Rank > 0) {
    int at[Rank];
    unravel<Rank>(space, n, at);
    TENON_UNROLL
    for (int d = 0; d < Rank; ++d)
      to[d] = at[d];
  }
}
} // namespace detail

/// What the ways of scattering share: rows of updates and where they go.
template <class Config, class Indices> struct scatter_rows {
  Config cfg;
  Indices indices;

  static constexpr int picked = decltype(Config::rows)::rank, inner = decltype(Config::inner)::rank;
  static constexpr int threads = 128, blocks_per_sm = 1;
  /// Rows whose loads are issued together.
  static constexpr int batch = 8;

  grid blocks() const { return {ceil_div(volume(cfg.rows), index_t(threads)), 1, 1}; }

protected:
  TENON_DEVICE static int number() { return block_x() * threads + thread(); }
  TENON_DEVICE int rows() const { return int(volume(cfg.rows)); }
  TENON_DEVICE int elements() const { return int(volume(cfg.inner)); }
  TENON_DEVICE int places() const { return int(index_t(cfg.space.head)); }
  /// Where row `i` goes; -1: nowhere.
  TENON_DEVICE int place_of(int i) const {
    int at[picked + 1];
    detail::unravel_into<picked>(cfg.rows, i, at);
    const int64_t to = load_element(indices.data + offset(indices.strides, at));
    return to < 0 || to >= places() ? -1 : int(to);
  }
  /// Which rows of the batch from `first` on, short of `end`, go to `place`; whether any does.
  TENON_DEVICE bool find(int place, int first, int end, bool (&there)[batch]) const {
    int to[batch];
    TENON_UNROLL
    for (int j = 0; j < batch; ++j)
      to[j] = place_of(min_of(first + j, end - 1)); // without a branch: all loads, then the rest
    bool any = false;
    TENON_UNROLL
    for (int j = 0; j < batch; ++j)
      any |= there[j] = first + j < end && to[j] == place;
    return any;
  }
};

/// The same with the updates and what they go to: a thread for each element.
template <class Config, class Indices, class Updates, class Y>
struct scatter_elements : scatter_rows<Config, Indices> {
  using part = scatter_rows<Config, Indices>;
  Updates updates;
  Y y;

  grid blocks() const {
    return {ceil_div(volume(this->cfg.rows) * volume(this->cfg.inner), index_t(part::threads)), 1,
            1};
  }

protected:
  /// An element `n` of what stands at `place` of y, and the elements of rows that go there.
  struct element {
    int to[part::inner + 1], from[part::picked + part::inner + 1];
  };
  TENON_DEVICE element element_at(int place, int n) const {
    element e;
    e.to[0] = place;
    detail::unravel_into<part::inner>(this->cfg.inner, n, e.to + 1);
    for (int d = 0; d < part::inner; ++d)
      e.from[part::picked + d] = e.to[1 + d];
    return e;
  }
  TENON_DEVICE auto update(element &e, int row) const {
    detail::unravel_into<part::picked>(this->cfg.rows, row, e.from);
    return load_element(updates.data + offset(updates.strides, e.from));
  }
  TENON_DEVICE auto *result(const element &e) const { return y.data + offset(y.strides, e.to); }
  /// Combines `to` with the elements of a batch of rows, where they are `there`, in order. All rows
  /// exist. `to` has the type of y: between updates it is as exact as in memory.
  template <class Combiner, class T>
  TENON_DEVICE void combine(T &to, element &e, const int (&rows)[part::batch],
                            const bool (&there)[part::batch]) const {
    decltype(update(e, 0)) values[part::batch];
    TENON_UNROLL
    for (int j = 0; j < part::batch; ++j)
      values[j] = update(e, rows[j]);
    TENON_UNROLL
    for (int j = 0; j < part::batch; ++j)
      if (there[j])
        store_element(&to, Combiner{}(load_element(&to), values[j]));
  }
};

template <class Combiner, class Config, class Indices, class Updates, class Y>
struct scatter_kernel : scatter_elements<Config, Indices, Updates, Y> {
  using part = scatter_elements<Config, Indices, Updates, Y>;

  TENON_DEVICE void run(unsigned char *) const {
    constexpr int batch = part::batch;
    const int rows = this->rows(), elements = max_of(this->elements(), 1);
    const int n = this->number(), mine = n / elements;
    if (mine >= rows)
      return;
    const int to = this->place_of(mine);
    if (to < 0)
      return;
    bool there[batch];
    for (int first = 0; first < mine; first += batch)
      if (this->find(to, first, mine, there))
        return; // that thread does it
    auto e = this->element_at(to, n - mine * elements);
    auto *const p = this->result(e);
    auto sum = *p;
    for (int first = mine; first < rows; first += batch) {
      if (!this->find(to, first, rows, there))
        continue;
      int row[batch];
      TENON_UNROLL
      for (int j = 0; j < batch; ++j)
        row[j] = there[j] ? first + j : mine;
      this->template combine<Combiner>(sum, e, row, there);
    }
    *p = sum;
  }
};

template <class Combiner, class Config, class Indices, class Updates, class Y>
scatter_kernel<Combiner, Config, Indices, Updates, Y> scatter(Config cfg, Indices indices,
                                                              Updates updates, Y y) {
  return {{{cfg, indices}, updates, y}};
}

} // namespace cuda
} // namespace tenon

#endif
