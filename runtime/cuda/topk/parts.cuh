// Defines `topk_parts` and `topk_merge`: what topk (cuda/topk/kernel.cuh) computes, for few rows
// that are too long for a block, in two launches. Elements of up to 32 bits.
//
// Algorithm: a block sorts each part of a row (cuda/sort/block_sort.cuh), as long as what it holds,
// and leaves the first `kept` of it; the k that come first of the row are among these. A block
// for each row sorts what its parts left and writes the results. Equal elements keep their order in
// both, for the parts stand in that of the row.
//
// Config, x, outs, ins and body: those of topk; threads, run: of the blocks that sort parts;
// merge_threads, merge_run: of those that sort what is left; kept: at least k, or a part's length.
// left: [rows][topk_part_count][kept] items in scratch.
#ifndef TENON_RUNTIME_CUDA_TOPK_PARTS_CUH
#define TENON_RUNTIME_CUDA_TOPK_PARTS_CUH

#include "cuda/base/computed.cuh"
#include "cuda/sort/block_sort.cuh"
#include "cuda/sort/ordered_key.cuh"
#include "cuda/topk/kernel.cuh"

namespace tenon {
namespace cuda {

template <class Config> TENON_FN int topk_part_count(const Config &cfg) {
  return ceil_div(topk_length(cfg), Config::threads * Config::run);
}

template <class Config, class X> struct topk_parts_kernel {
  Config cfg;
  X x;
  sort_item *left;

  using sorter = block_sort<Config::threads, Config::run>;
  static constexpr int rank = decltype(Config::space)::rank, last = rank - 1;
  static constexpr int threads = Config::threads, blocks_per_sm = sorter::blocks_per_sm;
  static constexpr int length = Config::threads * Config::run; // of a part
  using element = detail::bare<typename X::element>;

  int shared_bytes() const { return sorter::shared_bytes(); }
  grid blocks() const { return {topk_row_count(cfg) * topk_part_count(cfg), 1, 1}; }
  TENON_DEVICE void run(unsigned char *shared) const {
    const int n = topk_length(cfg), parts = topk_part_count(cfg);
    const int row = block_x() / parts, first = (block_x() - row * parts) * length;
    int at[rank];
    unravel<rank>(cfg.space, row * n, at);
    sorter sort;
    TENON_UNROLL
    for (int j = 0; j < Config::run; ++j) {
      const int i = at[last] = first + sorter::number(j);
      sort.keys[j] =
          i < n ? order_of<element, Config::largest>(load_one(x, at)) : sorter::left_over;
    }
    sort.by_keys(order_bits<element>, shared);
    TENON_UNROLL
    for (int j = 0; j < Config::run; ++j)
      if (sorter::number(j) < Config::kept)
        left[index_t(block_x()) * Config::kept + sorter::number(j)] = {sort.keys[j],
                                                                       first + sort.indices[j]};
  }
};

template <class Config, class X>
topk_parts_kernel<Config, X> topk_parts(Config cfg, X x, sort_item *left) {
  return {cfg, x, left};
}

template <class Config, class X, class Outs, class Ins, class Body> struct topk_merge_kernel {
  Config cfg;
  X x;
  Outs outs;
  Ins ins;
  Body body;
  const sort_item *left;

  using sorter = block_sort<Config::merge_threads, Config::merge_run>;
  static constexpr int rank = decltype(Config::space)::rank, last = rank - 1;
  static constexpr int threads = Config::merge_threads, blocks_per_sm = sorter::blocks_per_sm;
  using element = detail::bare<typename X::element>;

  int shared_bytes() const { return sorter::shared_bytes(); }
  grid blocks() const { return {topk_row_count(cfg), 1, 1}; }
  TENON_DEVICE void run(unsigned char *shared) const {
    const int n = topk_length(cfg), k = int(index_t(cfg.k));
    const int count = topk_part_count(cfg) * Config::kept;
    const sort_item *const mine = left + index_t(block_x()) * count;
    int at[rank];
    unravel<rank>(cfg.space, block_x() * n, at);
    sorter sort;
    TENON_UNROLL
    for (int j = 0; j < Config::merge_run; ++j) {
      const int i = sorter::number(j);
      sort.keys[j] = i < count ? mine[i].key : sorter::left_over;
    }
    sort.by_keys(order_bits<element>, shared);
    TENON_UNROLL
    for (int j = 0; j < Config::merge_run; ++j) {
      if (sorter::number(j) >= k)
        break;
      write_topk<last>(x, outs, ins, body, at, mine[sort.indices[j]].index, sorter::number(j));
    }
  }
};

template <class Config, class X, class Outs, class Ins, class Body>
topk_merge_kernel<Config, X, Outs, Ins, Body> topk_merge(Config cfg, X x, Outs outs, Ins ins,
                                                         Body body, const sort_item *left) {
  return {cfg, x, outs, ins, body, left};
}

} // namespace cuda
} // namespace tenon

#endif
