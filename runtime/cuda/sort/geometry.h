// Defines `block_sort_geometry` and `sort_geometry`: the shared memory of sorting in a block, and
// the scratch of sorting in passes over all items.
#ifndef TENON_RUNTIME_CUDA_SORT_GEOMETRY_H
#define TENON_RUNTIME_CUDA_SORT_GEOMETRY_H

#include "common/arithmetic.h"

namespace tenon {
namespace cuda {

/// Threads with runs of items.
struct block_sort_geometry {
  index_t threads, run;

  static constexpr int digits = 16, digit_bits = 4; // of a pass
  /// So that few of the threads of a warp, each with its run, meet at one bank.
  template <class Int> TENON_FN static constexpr Int slot(Int number) {
    return number + Int(unsigned(number) / 32);
  }
  TENON_FN constexpr index_t slots() const { return slot(threads * max_of(run, index_t(digits))); }
  TENON_FN constexpr index_t warps() const { return threads / 32; }
  TENON_FN constexpr index_t shared_bytes() const { return (slots() + warps()) * 4; }
  /// That a multiprocessor has registers for.
  TENON_FN constexpr index_t threads_together() const { return run > 8 ? 512 : 1024; }
};

/// Up to so many items, each a key and an index.
struct sort_geometry {
  index_t items;

  static constexpr int threads = 256, run = 8, digits = 16; // of a block of a pass
  static constexpr int item_bytes = 8;
  TENON_FN constexpr index_t blocks() const { return ceil_div(items, index_t(threads) * run); }
  /// Two lists of items, and a number for each digit and block.
  TENON_FN constexpr index_t scratch_bytes() const {
    return 2 * item_bytes * items + 4 * digits * blocks();
  }
};

} // namespace cuda
} // namespace tenon

#endif
