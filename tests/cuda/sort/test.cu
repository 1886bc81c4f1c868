// Architectures: 800
//
// Tests of sorts: passes over all items, and rows that a block holds.
#include "cuda/sort/block_sort.cuh"
#include "shared/sorting.h"

#include <algorithm>

using namespace test;

namespace {

/// `n` items in rows of `length`, keys of `bits` bits, few of them different where `few`.
struct rows_of_items {
  index_t n, length;
  std::vector<cuda::sort_item> items;

  rows_of_items(index_t rows, index_t length, int bits, bool few)
      : n(rows * length), length(length) {
    for (index_t i = 0; i < n; ++i) {
      const unsigned key = unsigned(random_int(0, 65535)) << 16 ^ unsigned(random_int(0, 65535));
      items.push_back({(few ? key % 3 * 0x7fffffffu : key) >> (32 - bits), int(i)});
    }
  }
  /// Compares what stands in a list with what a stable sort of each row gives.
  void expect(sorting &s, index_t most, int list) {
    for (index_t at = 0; at < n; at += length)
      std::stable_sort(items.begin() + at, items.begin() + at + length,
                       [](const auto &a, const auto &b) { return a.key < b.key; });
    s.expect(items, list * most);
  }
};

template <int Threads, int Run> void in_blocks(index_t rows, index_t length, int bits, bool few) {
  name_case("%ld rows of %ld, %d bits, few keys %d, %d threads, run %d", long(rows), long(length),
            bits, few, Threads, Run);
  rows_of_items items(rows, length, bits, few);
  const index_t most = items.n + 3;
  sorting s(most, items.n);
  s.give(items.items);
  launch(cuda::sort_rows<Threads, Run>(s.space, int(length), bits));
  items.expect(s, most, 1);
}

void in_passes(index_t n, int bits, bool few) {
  name_case("%ld items, %d bits, few keys %d, in passes", long(n), bits, few);
  rows_of_items items(1, n, bits, few);
  sorting s(n, n);
  s.give(items.items);
  s.by(bits, 0);
  items.expect(s, n, s.from);
}

} // namespace

int main() {
#if !defined(TENON_INSTANCES)
  for (const bool few : {false, true}) {
    in_blocks<128, 1>(3, 128, 32, few);
    in_blocks<128, 1>(2, 1, 32, few);
    in_blocks<128, 3>(5, 301, 32, few);
    in_blocks<128, 16>(2, 2047, 32, few);
    in_blocks<256, 5>(1, 1280, 13, few);
    in_blocks<512, 2>(2, 777, 1, few);
    in_blocks<1024, 2>(2, 2048, 32, few);
    in_passes(2049, 32, few);
    in_passes(5, 9, few);
  }
  in_blocks<256, 32>(2, 8192, 32, true);
#endif
  in_blocks<512, 17>(1, 8400, 32, false);
  in_blocks<128, 2>(0, 7, 32, false);
  return finish();
}
