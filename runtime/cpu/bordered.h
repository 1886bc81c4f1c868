// Defines bordered_view: a tensor continued beyond its borders, for pads that are not constant. It
// is an input of map.h; elements are read one by one.
//
//   border_edge     repeats the border           a a a b c c c
//   border_reflect  mirrors without the border   c b a b c b a
//   border_wrap     continues at the other end   b c a b c a b
#ifndef TENON_RUNTIME_CPU_BORDERED_H
#define TENON_RUNTIME_CPU_BORDERED_H

#include "cpu/epilogue.h"

namespace tenon {
namespace cpu {
namespace detail {

/// i modulo n, in [0, n).
TENON_FN index_t modulo(index_t i, index_t n) {
  i %= n;
  return i < 0 ? i + n : i;
}

} // namespace detail

struct border_edge {
  static TENON_FN index_t place(index_t i, index_t n) { return i < 0 ? 0 : i >= n ? n - 1 : i; }
};
struct border_reflect {
  static TENON_FN index_t place(index_t i, index_t n) {
    if (n == 1)
      return 0;
    i = detail::modulo(i, 2 * n - 2);
    return i < n ? i : 2 * n - 2 - i;
  }
};
struct border_wrap {
  static TENON_FN index_t place(index_t i, index_t n) { return detail::modulo(i, n); }
};

namespace detail {

// In this namespace, so that kernels find its load_at by its argument.
template <class Border, class T, class Strides, class Low, class Extents> struct bordered_view {
  using element = T;
  static constexpr int rank = Strides::rank;
  element_pointer<T> data; // of element 0
  Strides strides;
  Low low; // elements added before the first
  Extents extents;
};

template <int D, class View, class Border>
TENON_FN index_t bordered_offset(const View &v, const index_t *at, Border border) {
  if constexpr (D == View::rank)
    return 0;
  else
    return index_t(v.strides.template get<D>()) *
               Border::place(at[D] - index_t(v.low.template get<D>()),
                             v.extents.template get<D>()) +
           bordered_offset<D + 1>(v, at, border);
}

template <class L, int Axis, class Border, class T, class S, class Low, class Extents, class Count>
TENON_FN auto load_at(const bordered_view<Border, T, S, Low, Extents> &v, const index_t *at,
                      Count count) {
  if constexpr (L::width == 1) {
    return load_element(v.data + bordered_offset<0>(v, at, Border{}));
  } else {
    index_t point[S::rank];
    for (int d = 0; d < S::rank; ++d)
      point[d] = at[d];
    compute_t<T> lanes[L::width] = {};
    for (index_t i = 0; i < index_t(count); ++i) {
      point[Axis] = at[Axis] + i;
      lanes[i] = load_element(v.data + bordered_offset<0>(v, point, Border{}));
    }
    return load<L, compute_t<T>>(lanes);
  }
}

} // namespace detail

template <class Border, class T, class S, class Low, class Extents>
TENON_FN detail::bordered_view<Border, T, S, Low, Extents>
make_bordered_view(T *data, S strides, Low low, Extents extents) {
  return {data, strides, low, extents};
}
template <class Border, class T, class S, class Low, class Extents>
TENON_FN detail::bordered_view<Border, T, S, Low, Extents>
make_bordered_view(packed_pointer<T> data, S strides, Low low, Extents extents) {
  return {data, strides, low, extents};
}

} // namespace cpu
} // namespace tenon

#endif
