// Defines bordered: outs[i] = body(x[i], ins[i]...) of a tensor x that is continued beyond its
// borders, for pads that are not constant.
//
//   border_edge     repeats the border           a a a b c c c
//   border_reflect  mirrors without the border   c b a b c b a
//   border_wrap     continues at the other end   b c a b c a b
//
//   bordered(dims<...>{...}, make_bordered_view<border_reflect>(data, strides, low, extents), outs,
//            ins, body, workers)
//
// Lanes run along the last dimension, where elements inside are neighbours; of those beyond each
// one is looked for. What lies in front of a row is found once for all of it.
#ifndef TENON_RUNTIME_CPU_BORDERED_H
#define TENON_RUNTIME_CPU_BORDERED_H

#include "cpu/map.h"

namespace tenon {
namespace cpu {
namespace detail {

/// i modulo n, in [0, n).
TENON_FN index_t modulo(index_t i, index_t n) {
  i %= n;
  return i < 0 ? i + n : i;
}

} // namespace detail

// Where element i, one beyond the borders, of n is found.
struct border_edge {
  static TENON_FN index_t place(index_t i, index_t n) { return i < 0 ? 0 : n - 1; }
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

template <class Border, class T, class Strides, class Low, class Extents> struct bordered_view {
  using element = T;
  static constexpr int rank = Strides::rank;
  element_pointer<T> data; // of element 0
  Strides strides;
  Low low; // elements added before the first
  Extents extents;
};

template <class Border> TENON_FN index_t bordered_place(index_t i, index_t n) {
  return i >= 0 && i < n ? i : Border::place(i, n);
}

template <class V, class Views> struct with_first;
template <class V, class... Vs> struct with_first<V, arguments<Vs...>> {
  using type = arguments<V, Vs...>;
};

/// Offset of the dimensions D to End.
template <int D, int End, class Border, class View>
TENON_FN index_t bordered_offset(const View &v, const index_t *at) {
  if constexpr (D == End)
    return 0;
  else
    return index_t(v.strides.template get<D>()) *
               bordered_place<Border>(at[D] - index_t(v.low.template get<D>()),
                                      v.extents.template get<D>()) +
           bordered_offset<D + 1, End, Border>(v, at);
}

/// Points `at` to `end` of the last dimension, all of them beyond the borders; `row` is element 0.
template <class L, class Border, class Row, class View, class Outs, class Ins, class Body>
TENON_FN void border_run(const Row &row, const View &v, index_t *at, index_t end, const Outs &outs,
                         const Ins &ins, const Body &body) {
  constexpr int axis = View::rank - 1;
  using T = bare<typename View::element>;
  const index_t low = v.low.template get<axis>(), extent = v.extents.template get<axis>();
  const auto stride = v.strides.template get<axis>();
  const auto element = [&](index_t i) TENON_LAMBDA {
    return load_element(row + Border::place(i - low, extent) * index_t(stride));
  };
  if constexpr (L::width > 1)
    for (; at[axis] + L::width <= end; at[axis] += L::width) {
      compute_t<T> lanes[L::width];
      for (int i = 0; i < L::width; ++i)
        lanes[i] = element(at[axis] + i);
      apply_body<L, axis>(body, outs, ins, at, fixed<L::width>{}, load<L, compute_t<T>>(lanes));
    }
  for (; at[axis] < end; ++at[axis])
    apply_body<scalar_lanes, axis>(body, outs, ins, at, fixed<1>{}, element(at[axis]));
}

/// One row: points of the last dimension from at[axis] on, before `end`.
template <class L, class Border, class View, class Outs, class Ins, class Body>
TENON_FN void bordered_row(const View &v, index_t *at, index_t end, const Outs &outs,
                           const Ins &ins, const Body &body) {
  constexpr int axis = View::rank - 1;
  using T = bare<typename View::element>;
  const index_t low = v.low.template get<axis>(), extent = v.extents.template get<axis>();
  const auto stride = v.strides.template get<axis>();
  const auto row = v.data + bordered_offset<0, axis, Border>(v, at);
  const auto limited = [&](index_t i) { return i < at[axis] ? at[axis] : i < end ? i : end; };
  border_run<L, Border>(row, v, at, limited(low), outs, ins, body);
  const index_t inside = limited(low + extent);
  const auto from = [&] { return row + (at[axis] - low) * index_t(stride); };
  for (; at[axis] + L::width <= inside; at[axis] += L::width)
    apply_body<L, axis>(body, outs, ins, at, fixed<L::width>{}, load_strided<L, T>(from(), stride));
  if (at[axis] < inside) {
    const index_t left = inside - at[axis];
    apply_body<L, axis>(body, outs, ins, at, left, load_strided<L, T>(from(), stride, left));
    at[axis] = inside;
  }
  border_run<L, Border>(row, v, at, end, outs, ins, body);
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

template <class Lanes = void, class Space, class Border, class T, class S, class Low, class Extents,
          class Outs, class Ins, class Body>
void bordered(const Space &space, const detail::bordered_view<Border, T, S, Low, Extents> &x,
              const Outs &outs, const Ins &ins, const Body &body, pool &workers) {
  using namespace detail;
  constexpr int rank = Space::rank;
  using X = bordered_view<Border, T, S, Low, Extents>;
  using Chosen = view_lanes<Outs, typename with_first<X, Ins>::type>;
  using L = typename choose_type<is_same<Lanes, void>, Chosen, Lanes>::type;
  constexpr index_t run_length = 4096; // so that one long row can be shared
  odometer<rank> it;
  fill_extents<0>(space, it.extents);
  const index_t columns = it.extents[rank - 1];
  it.extents[rank - 1] = ceil_div(columns, run_length);
  // Elements that share a byte are written by one thread.
  constexpr bool together = any_packed(static_cast<const Outs *>(nullptr));
  workers.parallel_for(
      it.size(),
      together ? it.size() : 1 + 16384 / (columns < run_length ? columns + 1 : run_length),
      [&](index_t begin, index_t end) {
        odometer<rank> point = it;
        point.seek(begin);
        for (index_t u = begin; u < end; ++u, point.step()) {
          index_t at[rank];
          for (int d = 0; d < rank; ++d)
            at[d] = point.at[d];
          at[rank - 1] *= run_length;
          const index_t last = at[rank - 1] + run_length;
          bordered_row<L, Border>(x, at, last < columns ? last : columns, outs, ins, body);
        }
      });
}

} // namespace cpu
} // namespace tenon

#endif
