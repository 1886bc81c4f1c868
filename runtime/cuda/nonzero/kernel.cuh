// Defines `nonzero`: the indices of the elements other than zero, in row-major order. NaN is not
// zero.
//
//   places[d, r] = coordinate d of the r-th element that is not zero; counted.found = their number
//
// Algorithm: two launches, nonzero_count and nonzero_place. A block takes neighbouring elements, a
// thread of it a run of them. The first launch leaves each block's number; in the second a block
// adds up those before its own, its threads do the same within it, and each writes its elements.
// Config: space (dims of x, fewer than 2^31 elements). x: view over it; places: int64_t, dense,
// with room for every element; its rows have the length that was found.
#ifndef TENON_RUNTIME_CUDA_NONZERO_KERNEL_CUH
#define TENON_RUNTIME_CUDA_NONZERO_KERNEL_CUH

#include "cuda/base/lane_group.cuh"

namespace tenon {
namespace cuda {

/// What the launches of one nonzero share. The host reads `found`.
struct counted {
  static constexpr int most_blocks = 1024;
  int64_t found;
  int blocks[most_blocks];
};

template <class Config, class X> struct nonzero_part {
  Config cfg;
  X x;
  counted *numbers;

  static constexpr int rank = decltype(Config::space)::rank;
  static constexpr int threads = 256, blocks_per_sm = 1, least_run = 4;
  using group = lane_group<threads, threads, false>;

  /// Also where there are no elements: the number is written.
  grid blocks() const { return {max_of(ceil_div(size(), run_length() * threads), 1), 1, 1}; }

protected:
  TENON_FN index_t size() const { return volume(cfg.space); }
  TENON_FN index_t run_length() const {
    const index_t all = ceil_div(size(), index_t(threads) * counted::most_blocks);
    return all < least_run ? least_run : all;
  }
  TENON_FN static index_t max_of(index_t a, index_t b) { return a < b ? b : a; }
  TENON_DEVICE int first() const {
    return int((index_t(block_x()) * threads + thread()) * run_length());
  }
  TENON_DEVICE int last() const {
    const index_t end = first() + run_length();
    return int(end < size() ? end : size());
  }
  /// The coordinates of element n, and whether it is not zero.
  TENON_DEVICE bool holds(int n, int (&at)[rank + 1]) const {
    if constexpr (rank > 0) {
      int place[rank];
      unravel<rank>(cfg.space, n, place);
      TENON_UNROLL
      for (int d = 0; d < rank; ++d)
        at[d] = place[d];
      const auto v = load_element(x.data + offset(x.strides, place));
      return !(v == decltype(v)(0));
    } else {
      const auto v = load_element(x.data);
      return !(v == decltype(v)(0));
    }
  }
  TENON_DEVICE int count() const {
    int at[rank + 1], n = 0;
    for (int i = first(); i < last(); ++i)
      n += holds(i, at);
    return n;
  }
  TENON_DEVICE static int sum(int mine, unsigned char *shared) {
    return group::combine(mine, shared, [](int a, int b) { return a + b; });
  }
};

template <class Config, class X> struct nonzero_count_kernel : nonzero_part<Config, X> {
  using part = nonzero_part<Config, X>;

  int shared_bytes() const { return part::group::template shared_bytes<int>(); }
  TENON_DEVICE void run(unsigned char *shared) const {
    const int all = part::sum(this->count(), shared);
    if (thread() == 0)
      this->numbers->blocks[block_x()] = all;
  }
};

template <class Config, class X> struct nonzero_place_kernel : nonzero_part<Config, X> {
  using part = nonzero_part<Config, X>;
  int64_t *places;
  int block_count;

  int shared_bytes() const {
    return part::group::template shared_bytes<int>() + part::threads * int(sizeof(int));
  }
  TENON_DEVICE void run(unsigned char *shared) const {
    int before = 0, all = 0;
    for (int b = thread(); b < block_count; b += part::threads) {
      all += this->numbers->blocks[b];
      before += b < block_x() ? this->numbers->blocks[b] : 0;
    }
    before = part::sum(before, shared);
    all = part::sum(all, shared);
    if (block_x() == 0 && thread() == 0)
      this->numbers->found = all;

    int *runs = reinterpret_cast<int *>(shared + part::group::template shared_bytes<int>());
    runs[thread()] = this->count();
    sync_block();
    for (int t = 0; t < thread(); ++t)
      before += runs[t];
    int at[part::rank + 1];
    for (int i = this->first(); i < this->last(); ++i) {
      if (!this->holds(i, at))
        continue;
      TENON_UNROLL
      for (int d = 0; d < part::rank; ++d)
        places[index_t(d) * all + before] = at[d];
      ++before;
    }
  }
};

template <class Config, class X>
nonzero_count_kernel<Config, X> nonzero_count(Config cfg, X x, counted *numbers) {
  return {{cfg, x, numbers}};
}
template <class Config, class X>
nonzero_place_kernel<Config, X> nonzero_place(Config cfg, X x, counted *numbers, int64_t *places) {
  nonzero_place_kernel<Config, X> k{{cfg, x, numbers}, places, 0};
  k.block_count = int(k.blocks().x);
  return k;
}

} // namespace cuda
} // namespace tenon

#endif
