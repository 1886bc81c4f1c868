// Defines `add_up_teams`: teams of threads that worked on different parts of K of one tile add up
// their sums in shared memory, in a fixed order.
#ifndef TENON_RUNTIME_CUDA_TILE_INTRA_BLOCK_SPLIT_K_CUH
#define TENON_RUNTIME_CUDA_TILE_INTRA_BLOCK_SPLIT_K_CUH

#include "cuda/device.cuh"

namespace tenon {
namespace cuda {

/// Bytes of shared memory for teams whose threads have Count sums of four bytes each.
TENON_FN constexpr int team_bytes(int teams, int team_threads, int count) {
  return (teams - 1) * team_threads * count * 4;
}

/// Of each thread's Teams * Own sums, team t gets the t-th Own, of all teams together: its own,
/// then those of the others in turn. It gives away the rest. A block is Teams teams of Threads
/// threads, which hold the same places. `shared`: team_bytes.
template <int Teams, int Threads, class T, int Own, int All>
TENON_DEVICE void add_up_teams(T (&own)[Own], const T (&sum)[All], void *shared) {
  static_assert(All == Teams * Own && Own % 4 == 0 && sizeof(T) == 4, "teams have even parts");
  constexpr int words = Own / 4;
  const int mine = thread() / Threads, me = thread() % Threads;
  word16 *const given = static_cast<word16 *>(shared);
  const auto place = [=](int to, int from, int i) {
    return ((to * (Teams - 1) + (from > to ? from - 1 : from)) * words + i) * Threads + me;
  };
  TENON_UNROLL
  for (int t = 0; t < Teams; ++t) {
    if (t == mine) {
      memcpy(own, &sum[t * Own], sizeof(own));
      continue;
    }
    TENON_UNROLL
    for (int i = 0; i < words; ++i)
      memcpy(&given[place(t, mine, i)], &sum[t * Own + 4 * i], sizeof(word16));
  }
  sync_block();
  TENON_NO_UNROLL // a copy for each team takes the CUDA compiler long
      for (int from = 0; from < Teams - 1; ++from) {
    TENON_UNROLL
    for (int i = 0; i < words; ++i) {
      T four[4];
      memcpy(four, &given[((mine * (Teams - 1) + from) * words + i) * Threads + me], sizeof(four));
      TENON_UNROLL
      for (int e = 0; e < 4; ++e)
        own[4 * i + e] += four[e];
    }
  }
  sync_block();
}

} // namespace cuda
} // namespace tenon

#endif
