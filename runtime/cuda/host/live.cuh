// Defines live launches: those of a decoder's run that a caller has captured. Such a run may be
// replayed at any length of the caches, so that its kernels' arguments follow from a length in
// device memory:
//
//   begin_run | step 0 | step 1 | ...
//
// Kernels whose arguments depend on the length, or that write what is carried, read them from
// memory, where begin_run has put those of this run (cuda/host/live.h has how they follow from the
// length); all others have theirs as ever. They are launched with the blocks of the length that
// wants most; those beyond what this one wants do nothing. A run that the caches have no room for
// leaves them and the length as they are: its live kernels do nothing.
#ifndef TENON_RUNTIME_CUDA_HOST_LIVE_CUH
#define TENON_RUNTIME_CUDA_HOST_LIVE_CUH

#include "cuda/host/entry.cuh"

namespace tenon {
namespace cuda {

/// What a context keeps on the device.
struct live_length {
  long long length;
  int refused; // a run found no room since the host last looked
};

/// Eight bytes of arguments: where, and base + slope * length + what a column has for the length.
struct live_word {
  unsigned long long base, slope;
  unsigned at;
  int column; // -1: none
};

/// The blocks that a live launch has at the present length, in front of its kernel.
struct live_blocks {
  int x, y, z, unused;
};

/// The beginning of a run; without `arguments` only the length is set, to `value`.
struct begin_call {
  live_length *state;
  unsigned char *arguments;
  const live_word *words;
  int count;
  const unsigned long long *columns; // of `lengths` each
  int *going;                        // whether there is room: what the run's kernels look at
  long long tokens, lengths, value;
};

struct begin_run {
  begin_call call;

  static constexpr int threads = 512, blocks_per_sm = 1;
  TENON_FN static constexpr bool runs_on(target) { return true; }
  grid blocks() const { return {1, 1, 1}; }

  TENON_DEVICE void run(unsigned char *) const {
    if (!call.arguments) {
      if (thread() == 0)
        *call.state = {call.value, 0};
      return;
    }
    const long long length = call.state->length;
    sync_block(); // all have read it
    const bool fits = length < call.lengths;
    for (int i = thread(); fits && i < call.count; i += threads) {
      const live_word w = call.words[i];
      const unsigned long long difference =
          w.column < 0 ? 0 : call.columns[w.column * call.lengths + length];
      *reinterpret_cast<unsigned long long *>(call.arguments + w.at) =
          w.base + w.slope * static_cast<unsigned long long>(length) + difference;
    }
    if (thread() == 0) {
      *call.going = fits;
      if (fits)
        call.state->length = length + call.tokens;
      else
        call.state->refused = 1;
    }
  }
};

/// In place of a kernel, whose arguments stand in memory.
template <class K> struct live_kernel {
  const K *kernel;
  const int *going;
};

namespace detail {
constexpr size_t live_alignment = 64;
constexpr size_t align_live(size_t bytes) {
  return (bytes + live_alignment - 1) / live_alignment * live_alignment;
}

/// All of it was written before the first kernel of the run began.
template <class K> TENON_DEVICE void run_live(const live_kernel<K> &live, unsigned char *shared) {
  const live_blocks blocks = *reinterpret_cast<const live_blocks *>(
      reinterpret_cast<const unsigned char *>(live.kernel) - live_alignment);
  if (*live.going && block_x() < blocks.x && block_y() < blocks.y && block_z() < blocks.z)
    run_parts(*live.kernel, shared);
  else
    wait_and_let_next_begin();
}
} // namespace detail

template <class Variant, class K>
TENON_GLOBAL void TENON_LAUNCH_BOUNDS(K::threads, K::blocks_per_sm)
    live_entry(const TENON_GRID_CONSTANT live_kernel<K> live,
               const TENON_GRID_CONSTANT launch_tag tag) {
#if defined(__CUDA_ARCH__)
  if constexpr (Variant::contains(this_target) && detail::machines<K>::contain(this_target)) {
    extern __shared__ __align__(1024) unsigned char shared[]; // a swizzle's pattern
    detail::stamp_start(tag);
    detail::run_live(live, shared);
    detail::stamp_end(tag);
  } else {
    trap();
  }
#else
  (void)live, (void)tag;
#endif
}

} // namespace cuda
} // namespace tenon

#endif
