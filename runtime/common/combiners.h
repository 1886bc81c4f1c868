// Defines what scatter does with an element and an update of it.
#ifndef TENON_RUNTIME_COMMON_COMBINERS_H
#define TENON_RUNTIME_COMMON_COMBINERS_H

#include "common/scalar.h"

namespace tenon {

struct scatter_replace {
  template <class V> TENON_FN V operator()(V, V update) const { return update; }
};
struct scatter_add {
  template <class V> TENON_FN V operator()(V old, V update) const {
    if constexpr (detail::holds_float<V>)
      return old + update;
    else
      return add<scalar_lanes>(old, update);
  }
};
struct scatter_mul {
  template <class V> TENON_FN V operator()(V old, V update) const {
    if constexpr (detail::holds_float<V>)
      return old * update;
    else
      return mul<scalar_lanes>(old, update);
  }
};
struct scatter_min {
  template <class V> TENON_FN V operator()(V old, V update) const {
    return min<scalar_lanes>(old, update);
  }
};
struct scatter_max {
  template <class V> TENON_FN V operator()(V old, V update) const {
    return max<scalar_lanes>(old, update);
  }
};

} // namespace tenon

#endif
