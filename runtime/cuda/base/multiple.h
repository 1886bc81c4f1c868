// Defines `multiple`: an extent or stride that is a kernel's parameter, so that layers which differ
// in nothing else share the kernel, and that is known to be a multiple of a constant.
#ifndef TENON_RUNTIME_CUDA_BASE_MULTIPLE_H
#define TENON_RUNTIME_CUDA_BASE_MULTIPLE_H

#include "common/values.h"

namespace tenon {
namespace cuda {

template <index_t N> struct multiple : dyn {
  TENON_FN constexpr multiple() {}
  TENON_FN constexpr multiple(index_t v) : dyn(v) {}
};

namespace detail {

template <index_t N, class Extent> struct divides { static constexpr bool value = false; };
template <index_t N, index_t Value> struct divides<N, fixed<Value>> {
  static constexpr bool value = Value % N == 0;
};
template <index_t N, index_t Known> struct divides<N, multiple<Known>> {
  static constexpr bool value = Known % N == 0;
};
/// Whether every value of an extent of this type is known to be a multiple of N.
template <class Extent, index_t N>
constexpr bool is_multiple_of = divides<N, tenon::detail::bare<Extent>>::value;

} // namespace detail
} // namespace cuda
} // namespace tenon

#endif
