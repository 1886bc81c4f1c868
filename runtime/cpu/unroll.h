// Defines what register-blocked kernels are written with: loops that the front end unrolls, so that
// an array indexed by their counters becomes registers before the optimiser sees it, and the
// qualifier of the one function that holds the registers.
#ifndef TENON_RUNTIME_CPU_UNROLL_H
#define TENON_RUNTIME_CPU_UNROLL_H

#include "common/lanes.h"

#if defined(__GNUC__)
#define TENON_LAMBDA __attribute__((always_inline))
#else
#define TENON_LAMBDA
#endif

// A register tile is a function of its own: one instance serves every call with the same types, and
// nothing around it competes for registers. Without the width attribute clang splits 64-byte
// vectors in two where the CPU model prefers 32.
#if defined(__clang__) && TENON_SIMD_WIDTH >= 16
#define TENON_TILE __attribute__((noinline, min_vector_width(512)))
#elif defined(__GNUC__)
#define TENON_TILE __attribute__((noinline))
#else
#define TENON_TILE
#endif

namespace tenon {
namespace cpu {

/// Makes a loaded vector stay in its register: g++ would rather load it again as the memory operand
/// of each use, which doubles the reads where one value meets several taps.
template <class V> TENON_FN void hold(V &value) {
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && TENON_SIMD_WIDTH > 1
  if constexpr (tenon::detail::is_vector<V>)
    __asm__("" : "+v"(value));
#endif
  (void)value;
}

/// A loop counter that is a constant: converts to its value in constant expressions.
template <int I> struct counter {
  static constexpr int value = I;
  constexpr operator int() const { return I; }
};

namespace detail {
using namespace tenon::detail;
template <class F, int... I> TENON_FN void call_each(indices<I...>, const F &f) {
  (f(counter<I>{}), ...);
}
} // namespace detail

/// f(counter<0>{}), f(counter<1>{}), ... f(counter<N-1>{}).
template <int N, class F> TENON_FN void unroll(const F &f) {
  detail::call_each(indices_to<N>{}, f);
}

} // namespace cpu
} // namespace tenon

#endif
