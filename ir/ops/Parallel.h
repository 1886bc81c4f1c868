// Defines parallelFor: splits a range over a few threads, for the interpreter's heavy loops.
#pragma once

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cstdint>
#include <thread>
#include <vector>

namespace tenon {

/// Calls body(begin, end) on disjoint parts of [0, n), each of at least `grain`. Parts must not
/// write to the same place; results then do not depend on the number of threads.
inline void parallelFor(int64_t n, int64_t grain, llvm::function_ref<void(int64_t, int64_t)> body) {
  const int64_t most = std::min<int64_t>(std::max(1u, std::thread::hardware_concurrency()), 4);
  const int64_t parts = std::min(most, n / std::max<int64_t>(grain, 1));
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

} // namespace tenon
