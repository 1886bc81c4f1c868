// Defines `scatter_sorted`: what scatter (cuda/scatter/kernel.cuh) does, in time that grows with
// the number of updates.
//
// Algorithm: scatter_keys and a sort (cuda/sort/radix_sort.cuh) bring rows that meet together, in
// order; then a thread for each element of the first of them goes along the others, a batch at a
// time. Config, views: those of scatter; sorted: the list that the sort left.
#ifndef TENON_RUNTIME_CUDA_SCATTER_SORTED_CUH
#define TENON_RUNTIME_CUDA_SCATTER_SORTED_CUH

#include "cuda/scatter/kernel.cuh"
#include "cuda/sort/radix_sort.cuh"

namespace tenon {
namespace cuda {

template <class Config, class Indices> struct scatter_keys_kernel : scatter_rows<Config, Indices> {
  sort_space space;

  TENON_DEVICE void run(unsigned char *) const {
    const int mine = this->number();
    if (mine >= this->rows())
      return;
    const int to = this->place_of(mine);
    space.lists[0][mine] = {unsigned(to < 0 ? this->places() : to), mine}; // behind all others
  }
};

template <class Config, class Indices>
scatter_keys_kernel<Config, Indices> scatter_keys(Config cfg, Indices indices, sort_space space) {
  return {{cfg, indices}, space};
}

template <class Combiner, class Config, class Indices, class Updates, class Y>
struct scatter_sorted_kernel : scatter_elements<Config, Indices, Updates, Y> {
  using part = scatter_elements<Config, Indices, Updates, Y>;
  const sort_item *sorted;

  TENON_DEVICE void run(unsigned char *) const {
    constexpr int batch = part::batch;
    const int rows = this->rows(), elements = max_of(this->elements(), 1);
    const int n = this->number(), mine = n / elements;
    if (mine >= rows)
      return;
    const unsigned to = sorted[mine].key;
    if (to >= unsigned(this->places()) || (mine > 0 && sorted[mine - 1].key == to))
      return;
    auto e = this->element_at(int(to), n - mine * elements);
    auto *const p = this->result(e);
    auto sum = *p;
    bool more = true;
    for (int first = mine; more; first += batch) {
      sort_item items[batch];
      TENON_UNROLL
      for (int j = 0; j < batch; ++j)
        items[j] = sorted[min_of(first + j, rows - 1)];
      int row[batch];
      bool there[batch];
      TENON_UNROLL
      for (int j = 0; j < batch; ++j) {
        row[j] = items[j].index;
        there[j] = first + j < rows && items[j].key == to;
      }
      this->template combine<Combiner>(sum, e, row, there);
      more = there[batch - 1];
    }
    *p = sum;
  }
};

template <class Combiner, class Config, class Indices, class Updates, class Y>
scatter_sorted_kernel<Combiner, Config, Indices, Updates, Y>
scatter_sorted(Config cfg, Indices indices, Updates updates, Y y, const sort_item *sorted) {
  return {{{cfg, indices}, updates, y}, sorted};
}

} // namespace cuda
} // namespace tenon

#endif
