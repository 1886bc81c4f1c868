// Defines unique: classes of equal rows.
//
//   unique<Sorted>(m, n, x, out, places)
//     out[0, i] = class of row i, out[1, c] = first row of class c, out[2, c] = number of its rows
//
// Behind the last class stand -1 and 0. Classes are in order of value, element by element, or of
// their first rows. NaN is equal to NaN and larger than any number. m, n: extents, `fixed` or
// `dyn`. x: view over (m, n); out: view of int64_t over (3, m); places: 2 m index_t of scratch.
// Rows are sorted by a heap, in one thread.
#ifndef TENON_RUNTIME_CPU_UNIQUE_H
#define TENON_RUNTIME_CPU_UNIQUE_H

#include "cpu/topk.h"

namespace tenon {
namespace cpu {

template <bool Sorted, class M, class N, class X, class Out>
void unique(M m, N n, const X &x, const Out &out, index_t *places) {
  using namespace detail;
  const index_t rows = m;
  const auto result = [&](index_t kind, index_t i) -> int64_t & {
    const index_t at[] = {kind, i};
    return out.data[out.offset(at)];
  };
  // -1, 0 or 1.
  const auto compare = [&](index_t a, index_t b) {
    for (index_t k = 0; k < index_t(n); ++k) {
      const index_t at_a[] = {a, k}, at_b[] = {b, k};
      const auto u = load_element(x.data + x.offset(at_a));
      const auto v = load_element(x.data + x.offset(at_b));
      if (precedes<false>(u, v))
        return -1;
      if (precedes<false>(v, u))
        return 1;
    }
    return 0;
  };
  const auto before = [&](index_t a, index_t b) {
    const int order = compare(a, b);
    return order < 0 || (order == 0 && a < b);
  };
  for (index_t i = 0; i < rows; ++i)
    places[i] = i;
  for (index_t i = rows / 2; i-- > 0;)
    sift_down(places, rows, i, before);
  for (index_t size = rows; size > 1;) {
    --size;
    const index_t last = places[0];
    places[0] = places[size];
    places[size] = last;
    sift_down(places, size, 0, before);
  }
  // Classes in order of value: neighbours are equal.
  index_t classes = 0;
  for (index_t i = 0; i < rows; ++i) {
    classes += i == 0 || compare(places[i - 1], places[i]) != 0;
    result(0, places[i]) = classes - 1;
  }
  if constexpr (!Sorted) {
    index_t *renamed = places + rows;
    for (index_t c = 0; c < classes; ++c)
      renamed[c] = -1;
    index_t next = 0;
    for (index_t i = 0; i < rows; ++i) {
      index_t &name = renamed[result(0, i)];
      if (name < 0)
        name = next++;
      result(0, i) = name;
    }
  }
  for (index_t c = 0; c < rows; ++c) {
    result(1, c) = -1;
    result(2, c) = 0;
  }
  for (index_t i = 0; i < rows; ++i) {
    const index_t c = index_t(result(0, i));
    if (result(2, c)++ == 0)
      result(1, c) = i;
  }
}

} // namespace cpu
} // namespace tenon

#endif
