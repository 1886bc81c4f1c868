// Defines the one __global__ template, which runs both parts of a kernel with the dependency wait
// between them. So every thread of every kernel waits before its first read of activations and its
// first global write, which makes completion transitive along the sequence and lets the arena reuse
// memory.
#ifndef TENON_RUNTIME_CUDA_HOST_ENTRY_CUH
#define TENON_RUNTIME_CUDA_HOST_ENTRY_CUH

#include "cuda/base/operands.cuh"
#include "cuda/ptx/global_timer.cuh"
#include "cuda/ptx/griddepcontrol.cuh"

namespace tenon {
namespace cuda {

/// The architectures (10 x compute capability) whose kernels one program of a file uses. In other
/// passes over the file its kernels are traps.
template <int First, int Last, bool Specific = false> struct variant {
  static constexpr int first = First, last = Last;
  static constexpr bool specific = Specific;
  TENON_FN static constexpr bool contains(target t) {
    return t.arch >= First && t.arch <= Last && (!Specific || t.specific);
  }
};

/// What the machinery, not the kernel, knows about a launch.
struct launch_tag {
  /// Position in the sequence of launches: how a captured node is found again.
  int ordinal;
#if defined(TENON_PROFILE)
  /// First start and last end over all blocks, in nanoseconds of the global timer.
  unsigned long long *stamps;
#endif
};

namespace detail {
#if defined(TENON_PROFILE)
TENON_DEVICE void stamp_start(const launch_tag &tag) {
#if defined(__CUDA_ARCH__)
  if (thread() == 0)
    atomicMin(tag.stamps, ptx::global_timer::read());
#else
  (void)tag;
#endif
}
TENON_DEVICE void stamp_end(const launch_tag &tag) {
#if defined(__CUDA_ARCH__)
  sync_block();
  if (thread() == 0)
    atomicMax(tag.stamps + 1, ptx::global_timer::read());
#else
  (void)tag;
#endif
}
#else
TENON_DEVICE void stamp_start(const launch_tag &) {}
TENON_DEVICE void stamp_end(const launch_tag &) {}
#endif

/// Lets the next kernel begin only now: were it let in at once, blocks of kernels further on would
/// take the multiprocessors, two of one kernel on one and none on another.
TENON_DEVICE void wait_and_let_next_begin() {
  ptx::griddepcontrol::wait();
  ptx::griddepcontrol::launch_dependents();
}

/// Whether a kernel's run() lets the next one begin itself.
template <class K, class = void> constexpr bool lets_next_begin = false;
template <class K>
constexpr bool lets_next_begin<K, decltype(void(K::lets_next_begin))> = K::lets_next_begin;

template <class K> TENON_DEVICE void wait_for() {
  if constexpr (lets_next_begin<K>)
    ptx::griddepcontrol::wait();
  else
    wait_and_let_next_begin();
}

/// Both parts of a kernel; run() takes what prefetch() returns, if that is something.
template <class K> TENON_DEVICE void run_parts(const K &kernel, unsigned char *shared) {
  if constexpr (!has_prefetch<K>) {
    wait_for<K>();
    kernel.run(shared);
  } else if constexpr (is_same<decltype(kernel.prefetch(shared)), void>) {
    kernel.prefetch(shared);
    wait_for<K>();
    kernel.run(shared);
  } else {
    const auto begun = kernel.prefetch(shared);
    wait_for<K>();
    kernel.run(shared, begun);
  }
}
} // namespace detail

#if defined(__CUDACC__)
#define TENON_LAUNCH_BOUNDS(...) __launch_bounds__(__VA_ARGS__)
#else
#define TENON_LAUNCH_BOUNDS(...)
#endif

template <class Variant, class K>
TENON_GLOBAL void TENON_LAUNCH_BOUNDS(K::threads, K::blocks_per_sm)
    entry(const TENON_GRID_CONSTANT K kernel, const TENON_GRID_CONSTANT launch_tag tag) {
#if defined(__CUDA_ARCH__)
  if constexpr (Variant::contains(this_target) && detail::machines<K>::contain(this_target)) {
    extern __shared__ __align__(1024) unsigned char shared[]; // a swizzle's pattern
    detail::stamp_start(tag);
    detail::run_parts(kernel, shared);
    detail::stamp_end(tag);
  } else {
    trap();
  }
#else
  (void)kernel, (void)tag;
#endif
}

/// Never launched: its static shared memory says whether the build was for a specific architecture.
template <class Variant> TENON_GLOBAL void build_probe() {
#if defined(__CUDA_ARCH__)
  __shared__ volatile unsigned char mark[this_target.specific ? 4096 : 256];
  mark[0] = 0;
#endif
}

} // namespace cuda
} // namespace tenon

#endif
