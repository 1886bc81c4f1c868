// Defines `topk_sorted`: what topk (cuda/topk/kernel.cuh) computes, for long rows, in time that
// grows with their length. Elements of up to 32 bits.
//
// Algorithm: topk_keys gives every element a key, whose order is that of the elements; a sort
// (cuda/sort/radix_sort.cuh) by keys, then by rows, brings them in order, and a thread for each
// element of the results takes the one at its place. Config, views and body: those of topk; sorted:
// the list that the sort left.
#ifndef TENON_RUNTIME_CUDA_TOPK_SORTED_CUH
#define TENON_RUNTIME_CUDA_TOPK_SORTED_CUH

#include "cuda/base/computed.cuh"
#include "cuda/sort/ordered_key.cuh"
#include "cuda/sort/radix_sort.cuh"
#include "cuda/topk/kernel.cuh"

namespace tenon {
namespace cuda {

template <class Config, class X> struct topk_keys_kernel {
  Config cfg;
  X x;
  sort_space space;

  static constexpr int rank = decltype(Config::space)::rank;
  static constexpr int threads = 256, blocks_per_sm = 1;

  grid blocks() const { return {ceil_div(volume(cfg.space), index_t(threads)), 1, 1}; }
  TENON_DEVICE void run(unsigned char *) const {
    const int n = block_x() * threads + thread();
    if (n >= space.n)
      return;
    int at[rank];
    unravel<rank>(cfg.space, n, at);
    using value = compute_t<typename X::element>;
    space.lists[0][n] = {order_of<value, Config::largest>(load_one(x, at)), n};
  }
};

template <class Config, class X>
topk_keys_kernel<Config, X> topk_keys(Config cfg, X x, sort_space space) {
  return {cfg, x, space};
}

template <class Config, class X, class Outs, class Ins, class Body> struct topk_sorted_kernel {
  Config cfg;
  X x;
  Outs outs;
  Ins ins;
  Body body;
  const sort_item *sorted;

  static constexpr int rank = decltype(Config::space)::rank, last = rank - 1;
  static constexpr int threads = 128, blocks_per_sm = 1;

  grid blocks() const {
    return {ceil_div(index_t(topk_row_count(cfg)) * index_t(cfg.k), index_t(threads)), 1, 1};
  }

  TENON_DEVICE void run(unsigned char *) const {
    const int k = int(index_t(cfg.k)), n = topk_length(cfg), place = block_x() * threads + thread();
    const int row = place / max_of(k, 1), r = place - row * k;
    if (row >= topk_row_count(cfg))
      return;
    const int index = sorted[row * n + r].index;
    int at[rank];
    unravel<rank>(cfg.space, index, at);
    write_topk<last>(x, outs, ins, body, at, index - row * n, r);
  }
};

template <class Config, class X, class Outs, class Ins, class Body>
topk_sorted_kernel<Config, X, Outs, Ins, Body> topk_sorted(Config cfg, X x, Outs outs, Ins ins,
                                                           Body body, const sort_item *sorted) {
  return {cfg, x, outs, ins, body, sorted};
}

} // namespace cuda
} // namespace tenon

#endif
