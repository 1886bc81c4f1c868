// Defines what tests of kernels that rest on a sort share: its scratch and its launches.
#pragma once

#include "cuda/sort/radix_sort.cuh"
#include "shared/harness.h"

namespace test {

/// What issues the launches of a sort.
struct immediate {
  template <class Variant, class K> cuda::status launch(const K &kernel) {
    test::launch(kernel);
    return cuda::ok;
  }
};

/// Scratch for up to `most` items, `n` of them.
struct sorting {
  buffer<int64_t> memory;
  cuda::sort_space space;
  int from = 0;

  sorting(index_t most, index_t n)
      : memory(2 * most + 8 * ((most + 2047) / 2048) + 1),
        space(cuda::sort_space::over(reinterpret_cast<cuda::sort_item *>(memory.device()), most,
                                     n)) {}
  /// Writes the first list.
  void give(const std::vector<cuda::sort_item> &items) {
    for (size_t i = 0; i < items.size(); ++i) {
      int64_t word;
      memcpy(&word, &items[i], sizeof(word));
      memory.set(index_t(i), word);
    }
    memory.upload();
  }
  /// Compares what stands from `first` on, in items.
  void expect(const std::vector<cuda::sort_item> &items, index_t first) {
    memory.download();
    bool same = true;
    for (size_t i = 0; i < items.size(); ++i) {
      const int64_t word = memory.get(first + index_t(i));
      same = same && memcmp(&word, &items[i], sizeof(word)) == 0;
    }
    record(same, "items in order");
  }
  void by(int bits, int divisor) {
    immediate to;
    record(cuda::sort_by<void>(to, space, bits, divisor, from) == cuda::ok, "sort_by");
  }
};

} // namespace test
