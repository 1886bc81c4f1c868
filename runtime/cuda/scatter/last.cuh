// Defines `scatter_last`: what scatter (cuda/scatter/kernel.cuh) does with updates that replace, in
// time that grows with their number.
//
// Algorithm: three launches. Of the updates that meet at a place only the last one counts:
// scatter_clear and scatter_claim leave its row for each place, then a thread for each element of
// the updates writes where its row is that one. Config, views: those of scatter; last: an int for
// each index of y's first dimension.
#ifndef TENON_RUNTIME_CUDA_SCATTER_LAST_CUH
#define TENON_RUNTIME_CUDA_SCATTER_LAST_CUH

#include "cuda/scatter/kernel.cuh"

namespace tenon {
namespace cuda {

struct scatter_clear_kernel {
  int *last;
  index_t places;

  static constexpr int threads = 256, blocks_per_sm = 1;

  grid blocks() const { return {ceil_div(places, index_t(threads)), 1, 1}; }
  TENON_DEVICE void run(unsigned char *) const {
    const index_t i = index_t(block_x()) * threads + thread();
    if (i < places)
      last[i] = -1;
  }
};

template <class Config> scatter_clear_kernel scatter_clear(Config cfg, int *last) {
  return {last, index_t(cfg.space.head)};
}

template <class Config, class Indices> struct scatter_claim_kernel : scatter_rows<Config, Indices> {
  int *last;

  TENON_DEVICE void run(unsigned char *) const {
    const int mine = this->number();
    const int to = mine < this->rows() ? this->place_of(mine) : -1;
    if (to >= 0)
      atomic_max(last + to, mine);
  }
};

template <class Config, class Indices>
scatter_claim_kernel<Config, Indices> scatter_claim(Config cfg, Indices indices, int *last) {
  return {{cfg, indices}, last};
}

template <class Config, class Indices, class Updates, class Y>
struct scatter_last_kernel : scatter_elements<Config, Indices, Updates, Y> {
  const int *last;

  TENON_DEVICE void run(unsigned char *) const {
    const int elements = max_of(this->elements(), 1), n = this->number(), mine = n / elements;
    const int to = mine < this->rows() ? this->place_of(mine) : -1;
    if (to < 0 || last[to] != mine)
      return;
    auto e = this->element_at(to, n - mine * elements);
    store_element(this->result(e), this->update(e, mine));
  }
};

template <class Config, class Indices, class Updates, class Y>
scatter_last_kernel<Config, Indices, Updates, Y>
scatter_last(Config cfg, Indices indices, Updates updates, Y y, const int *last) {
  return {{{cfg, indices}, updates, y}, last};
}

} // namespace cuda
} // namespace tenon

#endif
