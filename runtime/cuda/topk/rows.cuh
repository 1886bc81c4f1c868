// Defines `topk_rows`: what topk (cuda/topk/kernel.cuh) computes, for rows that a block can sort.
// Elements of up to 32 bits.
//
// Algorithm: a block gives the elements of its row keys and sorts them (cuda/sort/block_sort.cuh);
// the threads that hold the first k write the results. Config, views and body: those of topk;
// threads, run: of block_sort, for a row.
#ifndef TENON_RUNTIME_CUDA_TOPK_ROWS_CUH
#define TENON_RUNTIME_CUDA_TOPK_ROWS_CUH

#include "cuda/base/computed.cuh"
#include "cuda/sort/block_sort.cuh"
#include "cuda/sort/ordered_key.cuh"
#include "cuda/topk/kernel.cuh"

namespace tenon {
namespace cuda {

template <class Config, class X, class Outs, class Ins, class Body> struct topk_rows_kernel {
  Config cfg;
  X x;
  Outs outs;
  Ins ins;
  Body body;

  using value = compute_t<typename X::element>;
  using sorter = block_sort<Config::threads, Config::run>;
  static constexpr int rank = decltype(Config::space)::rank, last = rank - 1;
  static constexpr int threads = Config::threads, blocks_per_sm = sorter::blocks_per_sm;

  int shared_bytes() const { return sorter::shared_bytes(); }
  grid blocks() const { return {topk_row_count(cfg), 1, 1}; }
  TENON_DEVICE void run(unsigned char *shared) const {
    const int n = topk_length(cfg), k = int(index_t(cfg.k));
    int at[rank];
    unravel<rank>(cfg.space, block_x() * n, at);
    sorter sort;
    TENON_UNROLL
    for (int j = 0; j < Config::run; ++j) {
      const int i = at[last] = sorter::number(j);
      sort.keys[j] = i < n ? order_of<value, Config::largest>(load_one(x, at)) : sorter::left_over;
    }
    sort.by_keys(ordered_bits<value>, shared);
    TENON_UNROLL
    for (int j = 0; j < Config::run; ++j) {
      if (sorter::number(j) >= k)
        break;
      write_topk<last>(x, outs, ins, body, at, sort.indices[j], sorter::number(j));
    }
  }
};

template <class Config, class X, class Outs, class Ins, class Body>
topk_rows_kernel<Config, X, Outs, Ins, Body> topk_rows(Config cfg, X x, Outs outs, Ins ins,
                                                       Body body) {
  return {cfg, x, outs, ins, body};
}

} // namespace cuda
} // namespace tenon

#endif
