// Defines fold_lanes: one value of a vector's lanes; sum_lanes: their sum.
#ifndef TENON_RUNTIME_CPU_SUM_LANES_H
#define TENON_RUNTIME_CPU_SUM_LANES_H

#include "common/lanes.h"

namespace tenon {
namespace cpu {
namespace detail {
using namespace tenon::detail;

/// What f makes of all lanes, by halves.
template <class A, class V, class F> TENON_FN A fold_lanes(V v, [[maybe_unused]] const F &f) {
#if TENON_SIMD_WIDTH > 1
  if constexpr (is_vector<V>) {
    constexpr int count = traits<V>::count;
    if constexpr (count == 2) {
      return f(v[0], v[1]);
    } else {
      using Half = typename simd<count / 2>::template of<A>;
      Half part[2];
      memcpy(part, &v, sizeof(v));
      return fold_lanes<A>(Half(f(part[0], part[1])), f);
    }
  } else
#endif
    return v;
}

/// The sum of all lanes, by halves.
template <class A, class V> TENON_FN A sum_lanes(V v) {
  return fold_lanes<A>(v, [](auto a, auto b) { return a + b; });
}

} // namespace detail
} // namespace cpu
} // namespace tenon

#endif
