// Defines how tests of row kernels name and choose what shares a row: lanes, blocks, clusters.
#pragma once

#include "shared/harness.h"

namespace test {

/// How lanes and blocks share rows. joined: blocks are no cluster.
template <int Threads, int Lanes, bool Across, int V, int Held, int Blocks = 1, bool Joined = false,
          bool Whole = false>
struct sharing {
  static constexpr int threads = Threads, lanes = Lanes, vector = V, held = Held, blocks = Blocks;
  static constexpr bool across = Across, joined = Joined, whole = Whole;
  static void name(const char *what, index_t a, index_t b, index_t n, index_t m) {
    name_case("%s %ldx%ldx%ldx%ld threads %d lanes %d across %d vector %d held %d blocks %d joined "
              "%d whole %d",
              what, long(a), long(b), long(n), long(m), threads, lanes, across, vector, held,
              blocks, joined, whole);
  }
  /// A cluster wants a machine that has such.
  static bool runs() { return Blocks == 1 || Joined || runs_clusters(); }
};

} // namespace test
