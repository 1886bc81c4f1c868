// Defines deterministic split-K: several blocks compute parts of one output tile's sum over K; the
// last to finish adds the parts up in a fixed order and goes on to the epilogue.
//
// Needs partials (plain scratch) and one counter per tile (zeroed scratch: cleared
// when the context is created, and left zero by the last block): geometry.h.
#ifndef TENON_RUNTIME_CUDA_TILE_SPLIT_K_CUH
#define TENON_RUNTIME_CUDA_TILE_SPLIT_K_CUH

#include "cuda/base/last_to_come.cuh"
#include "cuda/tile/geometry.h"

namespace tenon {
namespace cuda {

struct split_scratch {
  float *partials = nullptr;
  int *counters = nullptr;
};

/// Returns true in the one team of `tile` that holds the whole sum in `sum` afterwards. A team is
/// Threads threads with as many sums each, floats or integers; `shared` is a word of its own.
template <int Splits, int Threads, class T, int Count, class Team = whole_block>
TENON_DEVICE bool combine_splits(split_scratch scratch, int tile, int split, T (&sum)[Count],
                                 void *shared, Team team = {}) {
  static_assert(Count % 4 == 0 && sizeof(T) == 4, "sums are moved in words of four");
  constexpr int words = Count / 4;
  word16 *parts =
      reinterpret_cast<word16 *>(scratch.partials) + index_t(tile) * Splits * words * Threads;
  word16 *mine = parts + index_t(split) * words * Threads + team.rank();
  TENON_UNROLL
  for (int i = 0; i < words; ++i) {
    word16 w;
    memcpy(&w, &sum[4 * i], sizeof(w));
    mine[i * Threads] = w;
  }
  const bool last = comes_last(&scratch.counters[tile], Splits, static_cast<int *>(shared), team);
  team.sync(); // `shared` has been read
  if (!last)
    return false;
  TENON_UNROLL
  for (int i = 0; i < Count; ++i)
    sum[i] = 0;
  for (int s = 0; s < Splits; ++s) {
    TENON_UNROLL
    for (int i = 0; i < words; ++i) {
      const word16 w = load_uncached(parts + (index_t(s) * words + i) * Threads + team.rank());
      T part[4];
      memcpy(part, &w, sizeof(w));
      TENON_UNROLL
      for (int j = 0; j < 4; ++j)
        sum[4 * i + j] += part[j];
    }
  }
  return true;
}

} // namespace cuda
} // namespace tenon

#endif
