// Defines deterministic split-K: several blocks compute parts of one output tile's sum over K; the
// last to finish adds the parts up in a fixed order and goes on to the epilogue.
//
// Needs partials (plain scratch, partial_bytes) and one counter per tile (zeroed scratch: cleared
// when the context is created, and left zero by the last block).
#ifndef TENON_RUNTIME_CUDA_TILE_SPLIT_K_CUH
#define TENON_RUNTIME_CUDA_TILE_SPLIT_K_CUH

#include "cuda/device.cuh"

namespace tenon {
namespace cuda {

struct split_scratch {
  float *partials = nullptr;
  int *counters = nullptr;
};

TENON_FN constexpr index_t split_partial_bytes(index_t tiles, int splits, int tile_m, int tile_n) {
  return splits > 1 ? tiles * splits * tile_m * tile_n * index_t(sizeof(float)) : 0;
}
TENON_FN constexpr index_t split_counter_bytes(index_t tiles, int splits) {
  return splits > 1 ? tiles * index_t(sizeof(int)) : 0;
}

/// The threads that hold a tile's sums: all of a block.
struct whole_block {
  TENON_DEVICE int rank() const { return thread(); }
  TENON_DEVICE void sync() const { sync_block(); }
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
  fence();
  team.sync();
  int *finished = static_cast<int *>(shared);
  if (team.rank() == 0)
    *finished = atomic_add(&scratch.counters[tile], 1);
  team.sync();
  const bool last = *finished == Splits - 1;
  team.sync();
  if (!last)
    return false;
  fence();
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
  if (team.rank() == 0)
    scratch.counters[tile] = 0;
  return true;
}

} // namespace cuda
} // namespace tenon

#endif
