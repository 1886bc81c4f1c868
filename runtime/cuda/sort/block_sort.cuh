// Defines `block_sort`, which sorts what a block holds by its keys, and the kernel `sort_rows`, a
// row of items for each block: one launch where passes over all items (cuda/sort/radix_sort.cuh)
// take three each. Items with equal keys keep their order.
//
// Algorithm: while it sorts, every thread holds a run of neighbours. Four bits of the keys at a
// time, from the lowest, it counts its items of each digit; the sums of the counts, digit by digit
// and thread by thread, are the places of the first ones, and the items go there through shared
// memory. Before and after, neighbours are with neighbouring threads, so that memory is read and
// written in whole lines.
#ifndef TENON_RUNTIME_CUDA_SORT_BLOCK_SORT_CUH
#define TENON_RUNTIME_CUDA_SORT_BLOCK_SORT_CUH

#include "cuda/sort/geometry.h"
#include "cuda/sort/radix_sort.cuh"

namespace tenon {
namespace cuda {

/// Item j of a thread is number(j) of the block. Those that are left over have the largest key.
template <int Threads, int Run> struct block_sort {
  unsigned keys[Run];
  int indices[Run]; // what numbers the sorted items had

  static constexpr unsigned left_over = 0xffffffffu;
  static constexpr block_sort_geometry shape = {Threads, Run};
  static constexpr int most_blocks = 16; // that a multiprocessor of any level holds
  static constexpr int blocks_per_sm = shape.threads_together() < most_blocks * Threads
                                           ? int(shape.threads_together() / Threads)
                                           : most_blocks;

  TENON_FN static constexpr int shared_bytes() {
    return block_sort_geometry{Threads, Run}.shared_bytes();
  }
  TENON_DEVICE static int number(int j) { return j * Threads + thread(); }

  /// By the lowest `bits` bits, at least 1, of the keys, which stand.
  TENON_DEVICE void by_keys(int bits, unsigned char *shared) {
    int *const numbers = reinterpret_cast<int *>(shared);
    unsigned *const through = reinterpret_cast<unsigned *>(shared);
    TENON_UNROLL
    for (int j = 0; j < Run; ++j)
      through[slot(number(j))] = keys[j];
    sync_block();
    TENON_UNROLL
    for (int j = 0; j < Run; ++j) {
      indices[j] = thread() * Run + j;
      keys[j] = through[slot(indices[j])];
    }
    sync_block();
    for (int shift = 0; shift < bits; shift += 4)
      pass(shift, shift + 4 >= bits, numbers, numbers + slots);
  }

private:
  static constexpr int digits = shape.digits, warps = shape.warps();
  static_assert(Threads % 32 == 0 && warps <= 32, "whole warps, whose sums one warp adds up");
  static_assert(blocks_per_sm > 0, "a multiprocessor has registers for the block");
  TENON_FN static constexpr int slot(int number) { return block_sort_geometry::slot(number); }
  static constexpr int slots = shape.slots();

  /// Of this thread: for a digit, and of the run of counters that it sums up.
  TENON_DEVICE static int counter(int digit) { return slot(thread()) + digit * slot(Threads); }
  TENON_DEVICE static int in_run(int number) { return slot(thread() * digits) + number; }
  TENON_DEVICE int digit(int j, int shift) const { return int(keys[j] >> shift & (digits - 1)); }
  TENON_DEVICE void pass(int shift, bool is_last, int *numbers, int *sums) {
    TENON_UNROLL
    for (int d = 0; d < digits; ++d)
      numbers[counter(d)] = 0;
    int place[Run];
    TENON_UNROLL
    for (int j = 0; j < Run; ++j)
      place[j] = numbers[counter(digit(j, shift))]++;
    sync_block();
    int sum = 0;
    TENON_UNROLL
    for (int d = 0; d < digits; ++d)
      sum += numbers[in_run(d)];
    int before = sum_before(sum, sums);
    TENON_UNROLL
    for (int d = 0; d < digits; ++d) {
      int &number = numbers[in_run(d)];
      const int own = number;
      number = before;
      before += own;
    }
    sync_block();
    TENON_UNROLL
    for (int j = 0; j < Run; ++j)
      place[j] += numbers[counter(digit(j, shift))];
    sync_block();
    move(keys, place, is_last, reinterpret_cast<unsigned *>(numbers));
    move(indices, place, is_last, numbers);
  }
  /// To the places: to threads that hold runs, after the last pass to those of number().
  template <class T>
  TENON_DEVICE static void move(T (&items)[Run], const int *place, bool is_last, T *through) {
    TENON_UNROLL
    for (int j = 0; j < Run; ++j)
      through[slot(place[j])] = items[j];
    sync_block();
    TENON_UNROLL
    for (int j = 0; j < Run; ++j)
      items[j] = through[slot(is_last ? number(j) : thread() * Run + j)];
    sync_block();
  }
  /// The sum of the numbers of the lanes up to this one.
  TENON_DEVICE static int sum_of_lanes(int number) {
    for (int step = 1; step < 32; step *= 2) {
      const int other = shuffle(number, max_of(lane() - step, 0));
      number += lane() >= step ? other : 0;
    }
    return number;
  }
  /// The sum of the numbers of the threads before this one.
  TENON_DEVICE static int sum_before(int number, int *sums) {
    const int lanes = sum_of_lanes(number);
    if (lane() == 31)
      sums[warp()] = lanes;
    sync_block();
    const int all = sum_of_lanes(lane() < warps ? sums[lane()] : 0);
    const int others = shuffle(all, max_of(warp() - 1, 0));
    return lanes - number + (warp() > 0 ? others : 0);
  }
};

/// From list 0 to list 1; an item of list 0 has its place for an index.
template <int Threads, int Run> struct sort_rows_kernel {
  sort_space space;
  int length, bits; // of a row, at most Threads * Run; of the keys

  using sorter = block_sort<Threads, Run>;
  static constexpr int threads = Threads, blocks_per_sm = sorter::blocks_per_sm;

  int shared_bytes() const { return sorter::shared_bytes(); }
  grid blocks() const { return {length > 0 ? space.n / length : 0, 1, 1}; }
  TENON_DEVICE void run(unsigned char *shared) const {
    const int begin = block_x() * length;
    sorter sort;
    TENON_UNROLL
    for (int j = 0; j < Run; ++j) {
      const int i = sorter::number(j);
      sort.keys[j] = i < length ? space.lists[0][begin + i].key : sorter::left_over;
    }
    sort.by_keys(bits, shared);
    TENON_UNROLL
    for (int j = 0; j < Run; ++j)
      if (sorter::number(j) < length)
        space.lists[1][begin + sorter::number(j)] = {sort.keys[j], begin + sort.indices[j]};
  }
};

/// Sorts each row of `length` items by the lowest `bits` bits of their keys.
template <int Threads, int Run>
sort_rows_kernel<Threads, Run> sort_rows(sort_space space, int length, int bits) {
  return {space, length, bits};
}

} // namespace cuda
} // namespace tenon

#endif
