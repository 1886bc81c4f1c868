// Defines scatter: rows of a tensor replaced by, or combined with, rows of another at indices that
// are known at run time.
//
//   scatter<Combiner>(space, rows, x, indices, updates, y, workers)
//     y = x, then y[indices[i], ...] = Combiner(y[indices[i], ...], updates[i, ...]) for each i in
//     row-major order; an index outside the first dimension does nothing
//
// Combiner: of common/combiners.h. space: dims<...> of x and y; rows: dims<...> of the indices.
// x, y: views over space; indices: view of int64_t over rows; updates: view over (rows..., space
// without its first dimension...). The copy is shared between threads; updates may meet, so one
// thread does them.
#ifndef TENON_RUNTIME_CPU_SCATTER_H
#define TENON_RUNTIME_CPU_SCATTER_H

#include "common/combiners.h"
#include "cpu/loops.h"
#include "cpu/map.h"

namespace tenon {
namespace cpu {

namespace detail {
/// A map that copies.
struct unchanged {
  template <class L, class V> TENON_FN V operator()(L, V v) const { return v; }
};
} // namespace detail

template <class Combiner, class Space, class Rows, class X, class I, class U, class Y>
void scatter(const Space &space, const Rows &rows, const X &x, const I &indices, const U &updates,
             const Y &y, pool &workers) {
  constexpr int picked = Rows::rank, inner = Space::rank - 1;
  map(space, pack(y), pack(x), detail::unchanged{}, workers);
  index_t at[picked + inner > 0 ? picked + inner : 1] = {};
  for_each_point<0, 0, picked>(rows, at, [&] {
    const int64_t row = load_element(indices.data + indices.offset(at));
    if (row < 0 || row >= int64_t(index_t(space.head)))
      return;
    for_each_point<picked, 0, inner>(space.tail, at, [&] {
      index_t to[inner + 1] = {index_t(row)};
      for (int d = 0; d < inner; ++d)
        to[1 + d] = at[picked + d];
      const auto element = y.data + y.offset(to);
      store_element(element, Combiner{}(load_element(element),
                                        load_element(updates.data + updates.offset(at))));
    });
  });
}

} // namespace cpu
} // namespace tenon

#endif
