// Defines parallelFor: splits a range over threads, for the interpreter's heavy loops and for
// passes over large constants.
#pragma once

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cstdint>
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
  most = std::min<int64_t>(std::max(1u, std::thread::hardware_concurrency()), most);
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
