// Tests cpu::pool: every index is visited exactly once, jobs follow each other closely or after a
// pause long enough for the workers to sleep, and pools come and go. With TENON_THREADS (the native
// build of these tests) real threads take part; later chunks are shorter.
#include "cpu/pool.h"
#include "Support.h"

#include <atomic>
#include <chrono>
#include <thread>

using namespace tenon;
using namespace tenon::cpu;

namespace {

void visitAll(pool &workers, index_t count, index_t grain) {
  std::vector<std::atomic<int>> visits(size_t(count) + 1);
  workers.parallel_for(count, grain, [&](index_t begin, index_t end) {
    ASSERT_LE(0, begin);
    ASSERT_LT(begin, end);
    ASSERT_LE(end, count);
    for (index_t i = begin; i < end; ++i)
      visits[size_t(i)].fetch_add(1);
  });
  for (index_t i = 0; i < count; ++i)
    ASSERT_EQ(visits[size_t(i)].load(), 1)
        << "index " << i << " of " << count << ", grain " << grain;
}

TEST(Pool, VisitsEachIndexOnce) {
  for (int threads : {1, 2, 5}) {
    pool workers(threads);
    for (index_t count : {0, 1, 2, 7, 100, 1001})
      for (index_t grain : {0, 1, 3, 64, 5000})
        visitAll(workers, count, grain);
  }
}

TEST(Pool, ManyShortJobsAndAPause) {
  pool workers(3);
  for (int i = 0; i < 2000; ++i)
    visitAll(workers, 12, 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  visitAll(workers, 12, 1);
}

/// Long chunks first and single pieces last: a thread that is late waits for one piece at most.
TEST(Pool, ChunksBecomeShorter) {
  pool workers(2);
  std::vector<std::atomic<index_t>> ends(64); // of the chunk that begins there
  workers.parallel_for(64 * 3, 3,
                       [&](index_t begin, index_t end) { ends[size_t(begin / 3)] = end / 3; });
  if (workers.size() == 1)
    return;
  index_t longest = 64;
  for (index_t begin = 0; begin < 64; begin = ends[size_t(begin)]) {
    const index_t length = ends[size_t(begin)] - begin;
    ASSERT_LT(0, length);
    EXPECT_LE(length, longest);
    longest = length;
  }
  EXPECT_EQ(ends[0], 16);
  EXPECT_EQ(longest, 1);
}

TEST(Pool, SizeIsBounded) {
  EXPECT_EQ(pool(0).size(), 1);
  EXPECT_GE(pool(1000).size(), 1);
  EXPECT_LE(pool(1000).size(), 64);
}

} // namespace
