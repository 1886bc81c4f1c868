// Defines for_each_point: nested loops over part of an iteration space, innermost last, with
// constant bounds where the extents are constant.
#ifndef TENON_RUNTIME_CPU_LOOPS_H
#define TENON_RUNTIME_CPU_LOOPS_H

#include "common/base.h"

namespace tenon {
namespace cpu {

/// f() with at[First + d] running over dimension d of `space`, for d in [D, End).
template <int First, int D, int End, class Space, class F>
TENON_FN void for_each_point(const Space &space, index_t *at, const F &f) {
  if constexpr (D < End) {
    const index_t extent = space.template get<D>();
    for (at[First + D] = 0; at[First + D] < extent; ++at[First + D])
      for_each_point<First, D + 1, End>(space, at, f);
  } else {
    f();
  }
}

} // namespace cpu
} // namespace tenon

#endif
