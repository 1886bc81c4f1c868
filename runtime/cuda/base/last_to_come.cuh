// Defines `comes_last`: blocks that each have a part of a result leave it in memory, and the last
// of them to come goes on with all parts.
#ifndef TENON_RUNTIME_CUDA_BASE_LAST_TO_COME_CUH
#define TENON_RUNTIME_CUDA_BASE_LAST_TO_COME_CUH

#include "cuda/device.cuh"

namespace tenon {
namespace cuda {

/// The threads that come together: all of a block.
struct whole_block {
  TENON_DEVICE int rank() const { return thread(); }
  TENON_DEVICE void sync() const { sync_block(); }
};

/// Whether this team is the last of `count` to come, the same in all its threads. Then these see
/// what the others wrote before they came; they read it with load_uncached(). `counter`: of the
/// result, zero before the first comes and after the last one has. `word`: shared memory, which
/// nobody else writes until all threads have returned.
template <class Team = whole_block>
TENON_DEVICE bool comes_last(int *counter, int count, int *word, Team team = {}) {
  fence();
  team.sync();
  if (team.rank() == 0) {
    *word = atomic_add(counter, 1);
    if (*word == count - 1)
      *counter = 0;
  }
  team.sync();
  if (*word != count - 1)
    return false;
  fence();
  return true;
}

} // namespace cuda
} // namespace tenon

#endif
