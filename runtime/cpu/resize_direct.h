// Defines resize_direct: resampling along any number of dimensions, one element at a time, for what
// resize.h does not take (more than two dimensions, integers, regions that reach outside).
//
//   y[p...] = body(sum over t... of (product over d of weight_d(p_d, t_d)) *
//                  x[index_d(p_d, t_d)...], ins...)
//
//   resize_direct<T>(space, x, axes, fill, outs, ins, body, workers)
//
// T: element type of x; integers are weighed in double, by weights in double, product by product
// without fma, and rounded half to even, so that ties fall alike everywhere. space: dims<...>
// of the result. axes: pack with a resize_table or resize_same (resize.h) for each dimension; an
// index of -1 means that the element is `fill`. x: view or computed_view over its own dimensions;
// outs, ins: over the space.
#ifndef TENON_RUNTIME_CPU_RESIZE_DIRECT_H
#define TENON_RUNTIME_CPU_RESIZE_DIRECT_H

#include "common/scalar_cast.h"
#include "cpu/resize.h"

namespace tenon {
namespace cpu {
namespace detail {

/// Whether every dimension has one tap: then elements are copied.
template <class... Axes> constexpr bool copies_elements(const arguments<Axes...> *) {
  return ((Axes::taps == 1) && ...);
}

/// Sum over the taps of dimensions D and up; false in `inside` when one reads nothing.
template <int D, class A, class X, class Axes>
TENON_FN A resample_from(const X &x, const Axes &axes, const index_t *at, index_t *point,
                         bool &inside) {
  if constexpr (D == Axes::count) {
    return A(load_at<scalar_lanes, D - 1>(x, point, fixed<1>{}));
  } else {
    const auto &axis = axes.template get<D>();
    constexpr int taps = bare<decltype(axis)>::taps;
    A sum = A(0);
    for (int t = 0; t < taps; ++t) {
      point[D] = axis.index(at[D], t);
      if (point[D] < 0) {
        inside = false;
        return sum;
      }
      const A value = resample_from<D + 1, A>(x, axes, at, point, inside);
      sum = taps == 1 ? value : sum + A(axis.weight(at[D], t)) * value;
    }
    return sum;
  }
}

} // namespace detail

template <class T, class Space, class X, class Axes, class Outs, class Ins, class Body>
void resize_direct(const Space &space, const X &x, const Axes &axes, compute_t<T> fill,
                   const Outs &outs, const Ins &ins, const Body &body, pool &workers) {
  using namespace detail;
  constexpr int rank = Space::rank;
  constexpr bool copies = copies_elements(static_cast<const Axes *>(nullptr));
  using C = compute_t<T>;
  using A = typename choose_type<copies || is_float<C>, C, double>::type;
  odometer<rank> points;
  fill_extents<0>(space, points.extents);
  workers.parallel_for(points.size(), 1024, [&](index_t begin, index_t end) {
    odometer<rank> it = points;
    it.seek(begin);
    for (index_t u = begin; u < end; ++u, it.step()) {
      index_t point[rank > 0 ? rank : 1];
      bool inside = true;
      const A sum = resample_from<0, A>(x, axes, it.at, point, inside);
      C value;
      if constexpr (is_same<A, C>)
        value = sum;
      else
        value = cast<scalar_lanes, C, A>(round<scalar_lanes>(sum));
      apply_body<scalar_lanes, rank - 1>(body, outs, ins, it.at, fixed<1>{}, inside ? value : fill);
    }
  });
}

} // namespace cpu
} // namespace tenon

#endif
