// Defines prefetch, which asks for a line of memory before it is needed.
#ifndef TENON_RUNTIME_CPU_PREFETCH_H
#define TENON_RUNTIME_CPU_PREFETCH_H

#include "common/base.h"

namespace tenon {
namespace cpu {

/// Asks for the line that p points to, which need not be memory of the program's. It takes the
/// place of a load, and gains nothing where lines are read one after the other as fast as memory
/// gives them: the processor asks for those by itself.
TENON_FN void prefetch(const void *p) {
#if TENON_SIMD_WIDTH > 1 && defined(__GNUC__)
  __builtin_prefetch(p);
#else
  (void)p;
#endif
}

} // namespace cpu
} // namespace tenon

#endif
