// Defines parallelFor: splits a range over threads, for the interpreter's heavy loops and for
// passes over large constants.
#pragma once

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace tenon {

/// The interpreter's: several of them often run side by side.
constexpr int64_t kFewThreads = 4;
constexpr int64_t kAllThreads = 64;

/// Calls body(begin, end) on disjoint parts of [0, n), each of at least `grain`, on up to `most`
/// threads, one a core. Parts must not write to the same place; results then do not depend on the
/// number of threads.
inline void parallelFor(int64_t n, int64_t grain, llvm::function_ref<void(int64_t, int64_t)> body,
                        int64_t most = kFewThreads) {
  // The number of cores is asked for last: libraries read it from a file, which takes longer than a
  // small loop.
  int64_t parts = std::min(most, n / std::max<int64_t>(grain, 1));
  if (parts > 1)
    parts = std::min<int64_t>(parts, std::max(1u, std::thread::hardware_concurrency()));
  if (parts <= 1) {
    if (n > 0)
      body(0, n);
    return;
  }
  std::vector<std::thread> threads;
  for (int64_t i = 1; i < parts; ++i)
    threads.emplace_back([=] { body(n * i / parts, n * (i + 1) / parts); });
  body(0, n / parts);
  for (std::thread &t : threads)
    t.join();
}

/// Calls make(i, slot) for all i < n on all cores, and use(i, slot) in the order of i, one at a
/// time, on whichever thread is there. No more than two slots a core are in use.
template <class Slot>
void parallelInOrder(int64_t n, llvm::function_ref<void(int64_t, Slot &)> make,
                     llvm::function_ref<void(int64_t, Slot &)> use) {
  const int64_t threads = std::min<int64_t>(
      n, std::min<int64_t>(std::max(1u, std::thread::hardware_concurrency()), kAllThreads));
  if (threads <= 1) {
    Slot slot;
    for (int64_t i = 0; i < n; ++i) {
      make(i, slot);
      use(i, slot);
    }
    return;
  }
  std::vector<Slot> slots(static_cast<size_t>(2 * threads));
  std::vector<bool> made(slots.size());
  std::mutex lock;
  std::condition_variable freed;
  int64_t next = 0, used = 0;
  bool isUsing = false;
  const auto work = [&] {
    std::unique_lock<std::mutex> guard(lock);
    const auto slotOf = [&](int64_t i) { return size_t(i) % slots.size(); };
    while (next < n) {
      const int64_t i = next++;
      freed.wait(guard, [&] { return i - used < int64_t(slots.size()); });
      guard.unlock();
      make(i, slots[slotOf(i)]);
      guard.lock();
      made[slotOf(i)] = true;
      while (!isUsing && used < n && made[slotOf(used)]) {
        isUsing = true;
        guard.unlock();
        use(used, slots[slotOf(used)]);
        guard.lock();
        isUsing = false;
        made[slotOf(used)] = false;
        ++used;
        freed.notify_all();
      }
    }
  };
  std::vector<std::thread> others;
  for (int64_t i = 1; i < threads; ++i)
    others.emplace_back(work);
  work();
  for (std::thread &t : others)
    t.join();
}

} // namespace tenon
