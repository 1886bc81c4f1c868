// Defines one pass of a stable sort of items by four bits of their keys: `sort_count`,
// `sort_offsets` and `sort_place`, three launches. Passes over all digits, from the lowest, sort by
// the whole key; items with equal keys keep their order.
//
// Algorithm: a block takes neighbouring items, a thread of it a run of them. sort_count leaves how
// many items of each digit a block has, sort_offsets turns these numbers into the places of the
// first ones, and in sort_place every thread counts the items of its block before its own.
//
// Scratch of a sort of up to n items: two lists of them, which the passes move from one to the
// other, and a number for each digit and block.
#ifndef TENON_RUNTIME_CUDA_SORT_RADIX_SORT_CUH
#define TENON_RUNTIME_CUDA_SORT_RADIX_SORT_CUH

#include "cuda/base/operands.cuh"
#include "cuda/sort/geometry.h"
#include "cuda/status.h"

namespace tenon {
namespace cuda {

struct sort_item {
  unsigned key;
  int index;
};

/// What the launches of one sort share; n items.
struct sort_space {
  static constexpr int threads = sort_geometry::threads, run = sort_geometry::run,
                       digits = sort_geometry::digits;

  sort_item *lists[2];
  int *numbers; // by digit, then by block
  int n;

  TENON_FN static sort_space over(sort_item *scratch, index_t most, index_t n) {
    return {{scratch, scratch + most}, reinterpret_cast<int *>(scratch + 2 * most), int(n)};
  }
  TENON_FN int blocks() const { return int(sort_geometry{n}.blocks()); }
};

/// A digit: `shift` is where it begins in the key; with `divisor` > 0 in index / divisor.
struct sort_digit {
  int shift, divisor;
  TENON_FN int of(sort_item item) const {
    const unsigned key = divisor > 0 ? unsigned(item.index / divisor) : item.key;
    return int(key >> shift) & (sort_space::digits - 1);
  }
};

/// Shared memory: counts[digit][thread], then the sums of parts of its rows.
struct sort_pass {
  sort_space space;
  sort_digit digit;
  int from; // which list the items stand in

  static constexpr int threads = sort_space::threads, blocks_per_sm = 1;
  static constexpr int digits = sort_space::digits, parts = threads / digits,
                       part = threads / parts;

  int shared_bytes() const { return (digits * threads + digits * parts) * int(sizeof(int)); }
  grid blocks() const { return {space.blocks(), 1, 1}; }

protected:
  TENON_DEVICE int first() const { return (block_x() * threads + thread()) * sort_space::run; }
  TENON_DEVICE int last() const { return min_of(first() + sort_space::run, space.n); }
  /// Counts the thread's items and adds up each part of a row of counts.
  TENON_DEVICE void count(int *counts, int *sums) const {
    TENON_UNROLL
    for (int d = 0; d < digits; ++d)
      counts[d * threads + thread()] = 0;
    for (int i = first(); i < last(); ++i)
      ++counts[digit.of(space.lists[from][i]) * threads + thread()];
    sync_block();
    const int *const own = counts + thread() * part;
    int sum = 0;
    TENON_UNROLL
    for (int t = 0; t < part; ++t)
      sum += own[t];
    sums[thread()] = sum;
    sync_block();
  }
};

struct sort_count_kernel : sort_pass {
  TENON_DEVICE void run(unsigned char *shared) const {
    int *const counts = reinterpret_cast<int *>(shared), *const sums = counts + digits * threads;
    count(counts, sums);
    if (thread() >= digits)
      return;
    int all = 0;
    for (int p = 0; p < parts; ++p)
      all += sums[thread() * parts + p];
    space.numbers[thread() * space.blocks() + block_x()] = all;
  }
};

struct sort_offsets_kernel {
  sort_space space;

  static constexpr int threads = 1024, blocks_per_sm = 1;

  int shared_bytes() const { return threads * int(sizeof(int)); }
  grid blocks() const { return {space.n > 0 ? 1 : 0, 1, 1}; }
  TENON_DEVICE void run(unsigned char *shared) const {
    int *const sums = reinterpret_cast<int *>(shared);
    const int all = sort_space::digits * space.blocks(), run = ceil_div(all, threads);
    const int first = min_of(thread() * run, all), last = min_of(first + run, all);
    int mine = 0;
    for (int i = first; i < last; ++i)
      mine += space.numbers[i];
    sums[thread()] = mine;
    sync_block();
    for (int step = 1; step < threads; step *= 2) {
      const int other = thread() >= step ? sums[thread() - step] : 0;
      sync_block();
      sums[thread()] += other;
      sync_block();
    }
    int before = sums[thread()] - mine;
    for (int i = first; i < last; ++i) {
      const int number = space.numbers[i];
      space.numbers[i] = before;
      before += number;
    }
  }
};

struct sort_place_kernel : sort_pass {
  TENON_DEVICE void run(unsigned char *shared) const {
    int *const counts = reinterpret_cast<int *>(shared), *const sums = counts + digits * threads;
    count(counts, sums);
    // Each count becomes the place of the thread's first item of that digit.
    const int d = thread() / parts;
    int place = space.numbers[d * space.blocks() + block_x()];
    for (int p = d * parts; p < thread(); ++p)
      place += sums[p];
    int *const own = counts + thread() * part;
    TENON_UNROLL
    for (int t = 0; t < part; ++t) {
      const int number = own[t];
      own[t] = place;
      place += number;
    }
    sync_block();
    for (int i = first(); i < last(); ++i) {
      const sort_item item = space.lists[from][i];
      space.lists[1 - from][counts[digit.of(item) * threads + thread()]++] = item;
    }
  }
};

/// Issues the passes over `bits` bits of the keys, or of index / divisor, from list `from`; that of
/// the result is `from` after an even number of passes.
template <class Variant, class Issue>
status sort_by(Issue &to, sort_space space, int bits, int divisor, int &from) {
  for (int shift = 0; shift < bits; shift += 4, from = 1 - from) {
    sort_count_kernel count{};
    count.space = space, count.digit = {shift, divisor}, count.from = from;
    sort_place_kernel place{};
    place.space = space, place.digit = count.digit, place.from = from;
    TENON_CHECK(to.template launch<Variant>(count));
    TENON_CHECK(to.template launch<Variant>(sort_offsets_kernel{space}));
    TENON_CHECK(to.template launch<Variant>(place));
  }
  return ok;
}

} // namespace cuda
} // namespace tenon

#endif
