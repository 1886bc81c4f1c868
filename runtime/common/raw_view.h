// Defines raw_view: the same memory as unsigned integers of the elements' width, which moves bits
// whatever the element type makes of them.
#ifndef TENON_RUNTIME_COMMON_RAW_VIEW_H
#define TENON_RUNTIME_COMMON_RAW_VIEW_H

#include "common/packed.h"
#include "common/scalar_arith.h"

namespace tenon {
namespace detail {

/// The unsigned integer that holds the bits of a T.
template <class T, int Packed> struct bits_of {
  using type = typename unsigned_of_size<int(sizeof(T))>::type;
};
template <class T> struct bits_of<T, 4> { using type = uint4_t; };
template <class T> struct bits_of<T, 2> { using type = uint2_t; };
template <class T> using raw_t = typename bits_of<T, packed_bits<T>>::type;

} // namespace detail

template <class T, class S> TENON_FN view<detail::raw_t<T>, S> raw_view(const view<T, S> &v) {
  if constexpr (packed_bits < T >> 0)
    return {{v.data.bytes, v.data.at}, v.strides};
  else
    return {reinterpret_cast<detail::raw_t<T> *>(v.data), v.strides};
}
template <class T, class S>
TENON_FN view<const detail::raw_t<T>, S> raw_view(const view<const T, S> &v) {
  if constexpr (packed_bits < T >> 0)
    return {{v.data.bytes, v.data.at}, v.strides};
  else
    return {reinterpret_cast<const detail::raw_t<T> *>(v.data), v.strides};
}

} // namespace tenon

#endif
