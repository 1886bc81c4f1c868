// Defines bitcast: the bits of each element copied as they are, whatever the types make of them.
//
//   bitcast(space, y, x, workers)
//
// x and y: views over `space` of element types that are equally wide.
#ifndef TENON_RUNTIME_CPU_BITCAST_H
#define TENON_RUNTIME_CPU_BITCAST_H

#include "common/raw_view.h"
#include "cpu/map.h"

namespace tenon {
namespace cpu {
namespace detail {

struct same_bits {
  template <class L, class V> TENON_FN V operator()(L, V x) const { return x; }
};

} // namespace detail

template <class Space, class Y, class X>
void bitcast(const Space &space, const Y &y, const X &x, pool &workers) {
  map(space, pack(raw_view(y)), pack(raw_view(x)), detail::same_bits{}, workers);
}

} // namespace cpu
} // namespace tenon

#endif
