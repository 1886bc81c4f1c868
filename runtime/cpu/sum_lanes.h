// Defines sum_lanes: the sum of a vector's lanes.
#ifndef TENON_RUNTIME_CPU_SUM_LANES_H
#define TENON_RUNTIME_CPU_SUM_LANES_H

#include "common/lanes.h"

namespace tenon {
namespace cpu {
namespace detail {
using namespace tenon::detail;

/// The sum of all lanes, by halves.
template <class A, class V> TENON_FN A sum_lanes(V v) {
#if TENON_SIMD_WIDTH > 1
  if constexpr (is_vector<V>) {
    constexpr int count = traits<V>::count;
    if constexpr (count == 2) {
      return v[0] + v[1];
    } else {
      using Half = typename simd<count / 2>::template of<A>;
      Half part[2];
      memcpy(part, &v, sizeof(v));
      return sum_lanes<A>(Half(part[0] + part[1]));
    }
  } else
#endif
    return v;
}

} // namespace detail
} // namespace cpu
} // namespace tenon

#endif
