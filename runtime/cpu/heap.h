// Defines the heap's memory_source (common/open_options.h): the blocks behind models and contexts.
//
// Layers of more than the second cache stream through memory, which pages of 4 KiB slow down by a
// third: the processor looks up more of them than it can remember, and prefetching stops at each
// end. A large block therefore starts where a huge page could, and Linux is asked for such pages.
#ifndef TENON_RUNTIME_CPU_HEAP_H
#define TENON_RUNTIME_CPU_HEAP_H

#if !defined(TENON_NO_HEAP)

#include <stdlib.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace tenon {
namespace cpu {

/// Aligned as malloc does: those who need more have room for it.
inline void *heap_allocate(void *, size_t bytes, size_t) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  constexpr size_t huge = size_t(2) << 20;
  if (bytes >= huge) {
    void *block = nullptr;
    if (posix_memalign(&block, huge, bytes) != 0)
      return nullptr;
    (void)madvise(block, bytes, MADV_HUGEPAGE); // advice: a kernel without them may refuse
    return block;
  }
#endif
  return malloc(bytes);
}
inline void heap_release(void *, void *block) { free(block); }

} // namespace cpu
} // namespace tenon

#endif // TENON_NO_HEAP

#endif
