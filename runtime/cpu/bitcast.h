// Defines bitcast: the bits of each element copied as they are, whatever the types make of them.
//
//   bitcast(space, y, x, workers)
//
// x and y: views over `space` of element types that are equally wide.
#ifndef TENON_RUNTIME_CPU_BITCAST_H
#define TENON_RUNTIME_CPU_BITCAST_H

#include "common/packed.h"
#include "common/scalar_arith.h"
#include "cpu/map.h"

namespace tenon {
namespace cpu {
namespace detail {

/// The unsigned integer that holds the bits of a T.
template <class T, int Packed> struct bits_of {
  using type = typename unsigned_of_size<int(sizeof(T))>::type;
};
template <class T> struct bits_of<T, 4> { using type = uint4_t; };
template <class T> struct bits_of<T, 2> { using type = uint2_t; };
template <class T> using raw_t = typename bits_of<T, packed_bits<T>>::type;

template <class T, class S> TENON_FN view<raw_t<T>, S> raw(const view<T, S> &v) {
  if constexpr (packed_bits < T >> 0)
    return {{v.data.bytes, v.data.at}, v.strides};
  else
    return {reinterpret_cast<raw_t<T> *>(v.data), v.strides};
}
template <class T, class S> TENON_FN view<const raw_t<T>, S> raw(const view<const T, S> &v) {
  if constexpr (packed_bits < T >> 0)
    return {{v.data.bytes, v.data.at}, v.strides};
  else
    return {reinterpret_cast<const raw_t<T> *>(v.data), v.strides};
}

struct same_bits {
  template <class L, class V> TENON_FN V operator()(L, V x) const { return x; }
};

} // namespace detail

template <class Space, class Y, class X>
void bitcast(const Space &space, const Y &y, const X &x, pool &workers) {
  map(space, pack(detail::raw(y)), pack(detail::raw(x)), detail::same_bits{}, workers);
}

} // namespace cpu
} // namespace tenon

#endif
