// Defines how a kernel hands values to a body: loads the extra inputs at one iteration point, calls
// the body, stores its results. Lanes run along dimension `Axis` of the views. An input may be a
// view, a padded_view, a gathered_view or an index_view.
#ifndef TENON_RUNTIME_CPU_EPILOGUE_H
#define TENON_RUNTIME_CPU_EPILOGUE_H

#include "common/lanes.h"

namespace tenon {
namespace cpu {
namespace detail {
using namespace tenon::detail;

/// Distance between lanes; without an axis (a space of rank 0) there is one lane.
template <int Axis, class Strides> TENON_FN auto lane_stride(const Strides &strides) {
  if constexpr (Axis < 0)
    return fixed<1>{};
  else
    return strides.template get<Axis>();
}

template <class L, int Axis, class T, class S, class Count>
TENON_FN auto load_at(const view<T, S> &v, const index_t *at, Count count) {
  return load_strided<L, bare<T>>(v.data + v.offset(at), lane_stride<Axis>(v.strides),
                                  index_t(count));
}

template <class L, int Axis, class T, class S, class Lo, class Hi, class Fill, class Count>
TENON_FN auto load_at(const padded_view<T, S, Lo, Hi, Fill> &v, const index_t *at, Count count) {
  using C = compute_t<T>;
  index_t last[S::rank];
  for (int d = 0; d < S::rank; ++d)
    last[d] = at[d];
  last[Axis] += index_t(count) - 1;
  if (v.inside(at) && v.inside(last))
    return load_strided<L, bare<T>>(v.data + v.offset(at), lane_stride<Axis>(v.strides),
                                    index_t(count));
  C lanes[L::width];
  for (int i = 0; i < L::width; ++i) {
    last[Axis] = at[Axis] + i;
    lanes[i] =
        i < index_t(count) && v.inside(last) ? load_element(v.data + v.offset(last)) : C(v.fill);
  }
  return load<L, C>(lanes);
}

template <class L, int Axis, class Data, class Indices, class Stride, class Extent, class Count>
TENON_FN auto load_at(const gathered_view<Data, Indices, Stride, Extent> &v, const index_t *at,
                      Count count) {
  using T = bare<typename Data::element>;
  using PerLane = bare<decltype(lane_stride<Axis>(v.indices.strides))>;
  if constexpr (is_same<PerLane, fixed<0>>) {
    return load_strided<L, T>(v.data.data + v.offset(at), lane_stride<Axis>(v.data.strides),
                              index_t(count));
  } else {
    index_t point[Data::rank > 0 ? Data::rank : 1];
    for (int d = 0; d < Data::rank; ++d)
      point[d] = at[d];
    compute_t<T> lanes[L::width] = {};
    for (index_t i = 0; i < index_t(count); ++i) {
      if constexpr (Axis >= 0)
        point[Axis] = at[Axis] + i;
      lanes[i] = load_element(v.data.data + v.offset(point));
    }
    return load<L, compute_t<T>>(lanes);
  }
}

/// first, first + 1 ... in lanes.
template <class L, class T, int... I> TENON_FN auto count_from(T first, indices<I...>) {
  if constexpr (has_own<L>) {
    const T numbers[] = {T(first + I)...};
    return load<L, T>(numbers);
  } else {
    constexpr T numbers[] = {T(I)...};
    return broadcast<L, T>(first) + load<L, T>(numbers);
  }
}

template <class L, int Axis, class T, int D, class Count>
TENON_FN auto load_at(const index_view<T, D> &, const index_t *at, Count) {
  if constexpr (D != Axis || L::width == 1)
    return broadcast<L, T>(T(at[D]));
  else
    return count_from<L>(T(at[D]), indices_to<L::width>{});
}

template <class L, int Axis, class View, class V, class Count>
TENON_FN void store_at(const View &v, const index_t *at, V x, Count count) {
  store_strided<L, typename View::element>(v.data + v.offset(at), lane_stride<Axis>(v.strides), x,
                                           index_t(count));
}

template <class L, int Axis, class Outs, class R, class Count, int... O>
TENON_FN void store_results(indices<O...>, const Outs &outs, const index_t *at, const R &r,
                            Count count) {
  if constexpr (sizeof...(O) == 1)
    (store_at<L, Axis>(outs.template get<O>(), at, r, count), ...);
  else
    (store_at<L, Axis>(outs.template get<O>(), at, r.template get<O>(), count), ...);
}

template <class L, int Axis, class Outs, class Ins, class Body, class Count, int... I,
          class... Anchors>
TENON_FN void run_body(indices<I...>, const Body &body, const Outs &outs, const Ins &ins,
                       const index_t *at, Count count, Anchors... anchors) {
  store_results<L, Axis>(
      indices_to<Outs::count>{}, outs, at,
      body(L{}, anchors..., load_at<L, Axis>(ins.template get<I>(), at, count)...), count);
}
} // namespace detail

/// outs[at ...] = body(anchors..., ins[at ...]...) for `count` lanes (fixed<L::width> or any
/// number).
template <class L, int Axis, class Outs, class Ins, class Body, class Count, class... Anchors>
TENON_FN void apply_body(const Body &body, const Outs &outs, const Ins &ins, const index_t *at,
                         Count count, Anchors... anchors) {
  detail::run_body<L, Axis>(indices_to<Ins::count>{}, body, outs, ins, at, count, anchors...);
}

/// The body of a kernel whose result is stored as it is.
struct identity_body {
  template <class L, class V> TENON_FN V operator()(L, V x) const { return x; }
};

/// The K-indexed prologue that leaves its operand alone.
struct no_prologue {
  template <class L, class V> TENON_FN V operator()(L, V x) const { return x; }
};

} // namespace cpu
} // namespace tenon

#endif
