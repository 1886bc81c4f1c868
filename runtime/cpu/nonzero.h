// Defines nonzero: the indices of the elements other than zero, in row-major order.
//
//   nonzero(space, x, out, found)
//
// space: dims<...>; x: view over it. out: view over (dimension, ordinal) with room for every
// element; found[0] receives how many there are. NaN is not zero. One thread: each position depends
// on all before it.
#ifndef TENON_RUNTIME_CPU_NONZERO_H
#define TENON_RUNTIME_CPU_NONZERO_H

#include "common/lanes.h"
#include "cpu/loops.h"

namespace tenon {
namespace cpu {

template <class Space, class X, class Out>
void nonzero(const Space &space, const X &x, const Out &out, int64_t *found) {
  constexpr int rank = Space::rank;
  index_t at[rank > 0 ? rank : 1] = {};
  index_t count = 0;
  for_each_point<0, 0, rank>(space, at, [&] {
    const auto v = load_element(x.data + x.offset(at));
    if (v == decltype(v)(0))
      return;
    for (int d = 0; d < rank; ++d) {
      const index_t where[2] = {d, count};
      out.data[out.offset(where)] = at[d];
    }
    ++count;
  });
  *found = count;
}

/// Moves rows that stand `pitch` apart together: the result of nonzero once its extent is known.
inline void join_rows(int64_t *data, index_t rows, index_t extent, index_t pitch) {
  for (index_t r = 1; r < rows; ++r)
    memmove(data + r * extent, data + r * pitch, size_t(extent) * sizeof(int64_t));
}

} // namespace cpu
} // namespace tenon

#endif
