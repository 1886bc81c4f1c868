// Defines normalize: y[k, r] = body((x[k, r] - mean) / sqrt(mean of squared deviations + epsilon),
// ins[k, r]...), the means taken over all r.
//
//   normalize<Reduced, Centered>(space, epsilon, x, outs, ins, body, workers)
//
// space: dims<...> whose last Reduced dimensions are averaged over, with at least one before them;
// x, outs, ins: views over it. Centered: false takes the mean as 0 (root mean square). Three
// passes: mean, squared deviations, results. Sums are kept in blocks, so that their error does not
// grow with the length of a row. x is computed in f32 (f64 for f64). Lanes run along the last
// dimension when x is contiguous there and it fills a vector, else along the last kept one.
#ifndef TENON_RUNTIME_CPU_NORMALIZE_H
#define TENON_RUNTIME_CPU_NORMALIZE_H

#include "common/scalar_math.h"
#include "cpu/loops.h"
#include "cpu/reduce.h"

namespace tenon {
namespace cpu {
namespace detail {

constexpr index_t normalize_block = 1024;

/// Sums f(element) over one row, lanes along it. `f` takes the lanes and what they hold.
template <class L, int Kept, class Space, class X, class F>
TENON_FN auto sum_along_row(const Space &space, index_t *at, const X &x, const F &f) {
  using T = compute_t<typename X::element>;
  using V = typename L::template of<T>;
  constexpr int last = Space::rank - 1;
  const index_t n = space.template get<last>();
  T total = T(0);
  for_each_point<0, Kept, last>(space, at, [&]() TENON_LAMBDA {
    for (index_t begin = 0; begin < n; begin += normalize_block) {
      const index_t end = begin + normalize_block < n ? begin + normalize_block : n;
      V sums = V{};
      T lanes[L::width], rest = T(0);
      index_t i = begin;
      for (; i + L::width <= end; i += L::width) {
        at[last] = i;
        sums = sums + f(L{}, load_at<L, last>(x, at, fixed<L::width>{}));
      }
      for (; i < end; ++i) {
        at[last] = i;
        rest += f(scalar_lanes{}, load_at<scalar_lanes, last>(x, at, fixed<1>{}));
      }
      store<L, T>(lanes, sums);
      for (T lane : lanes)
        rest += lane;
      total += rest;
    }
  });
  return total;
}

/// One row, lanes along it.
template <bool Centered, class L, int Kept, class Space, class T, class X, class Outs, class Ins,
          class Body>
TENON_FN void normalize_row(const Space &space, index_t *at, T count, T epsilon, const X &x,
                            const Outs &outs, const Ins &ins, const Body &body) {
  using V = typename L::template of<T>;
  constexpr int last = Space::rank - 1;
  T mean = T(0);
  if constexpr (Centered)
    mean =
        sum_along_row<L, Kept>(space, at, x, [](auto, auto v) TENON_LAMBDA { return v; }) / count;
  const T squares = sum_along_row<L, Kept>(space, at, x, [&](auto, auto v) TENON_LAMBDA {
    const auto d = v - mean;
    return d * d;
  });
  const T factor = T(1) / sqrt<scalar_lanes>(T(squares / count + epsilon));
  const index_t n = space.template get<last>();
  for_each_point<0, Kept, last>(space, at, [&]() TENON_LAMBDA {
    index_t i = 0;
    for (; i + L::width <= n; i += L::width) {
      at[last] = i;
      const V y = (load_at<L, last>(x, at, fixed<L::width>{}) - mean) * factor;
      apply_body<L, last>(body, outs, ins, at, fixed<L::width>{}, y);
    }
    for (; i < n; ++i) {
      at[last] = i;
      const T y = (load_at<scalar_lanes, last>(x, at, fixed<1>{}) - mean) * factor;
      apply_body<scalar_lanes, last>(body, outs, ins, at, fixed<1>{}, y);
    }
  });
}

/// Sums f(element) over each of `count` rows side by side, lanes along dimension Axis.
template <class L, int Axis, class Space, class X, class Count, class F>
TENON_FN auto sum_across_rows(const Space &space, index_t *at, Count count, const X &x,
                              const F &f) {
  using V = typename L::template of<compute_t<typename X::element>>;
  constexpr int last = Space::rank - 1;
  const index_t n = space.template get<last>();
  V total = V{};
  for_each_point<0, Axis + 1, last>(space, at, [&]() TENON_LAMBDA {
    for (index_t begin = 0; begin < n; begin += normalize_block) {
      const index_t end = begin + normalize_block < n ? begin + normalize_block : n;
      V sums = V{};
      for (at[last] = begin; at[last] < end; ++at[last])
        sums = sums + f(load_at<L, Axis>(x, at, count));
      total = total + sums;
    }
  });
  return total;
}

/// `lanes` rows side by side, lanes along dimension Axis, the last kept one.
template <bool Centered, class L, int Axis, class Space, class T, class Lanes, class X, class Outs,
          class Ins, class Body>
TENON_FN void normalize_rows(const Space &space, index_t *at, Lanes lanes, T count, T epsilon,
                             const X &x, const Outs &outs, const Ins &ins, const Body &body) {
  using V = typename L::template of<T>;
  V mean = V{};
  if constexpr (Centered)
    mean =
        sum_across_rows<L, Axis>(space, at, lanes, x, [](V v) TENON_LAMBDA { return v; }) / count;
  const V squares = sum_across_rows<L, Axis>(space, at, lanes, x, [&](V v) TENON_LAMBDA {
    const V d = v - mean;
    return V(d * d);
  });
  const V factor = T(1) / sqrt<L>(V(squares / count + epsilon));
  for_each_point<0, Axis + 1, Space::rank>(space, at, [&]() TENON_LAMBDA {
    const V y = (load_at<L, Axis>(x, at, lanes) - mean) * factor;
    apply_body<L, Axis>(body, outs, ins, at, lanes, y);
  });
}

} // namespace detail

template <int Reduced, bool Centered, class Space, class T, class X, class Outs, class Ins,
          class Body>
void normalize(const Space &space, T epsilon, const X &x, const Outs &outs, const Ins &ins,
               const Body &body, pool &workers) {
  using namespace detail;
  constexpr int rank = Space::rank, kept = rank - Reduced;
  static_assert(kept > 0 && Reduced > 0, "absent dimensions have the extent 1");
  using L = lanes_for<compute_t<typename X::element>>;
  constexpr bool along_row =
      lane_fit<rank - 1, X>::value == 1 &&
      !shorter_than<bare<decltype(space.template get<rank - 1>())>>(L::width);
  index_t extents[rank];
  fill_extents<0>(space, extents);
  index_t elements = 1;
  odometer<kept> outer;
  for (int d = 0; d < kept; ++d)
    outer.extents[d] = extents[d];
  for (int d = kept; d < rank; ++d)
    elements *= extents[d];
  const index_t rows = extents[kept - 1];
  if constexpr (!along_row)
    outer.extents[kept - 1] = ceil_div(rows, index_t(L::width));
  const T count = T(elements);
  workers.parallel_for(outer.size(), 1 + 4096 / (elements + 1), [&](index_t begin, index_t end) {
    odometer<kept> it = outer;
    it.seek(begin);
    for (index_t u = begin; u < end; ++u, it.step()) {
      index_t at[rank] = {};
      for (int d = 0; d < kept; ++d)
        at[d] = it.at[d];
      if constexpr (along_row) {
        normalize_row<Centered, L, kept>(space, at, count, epsilon, x, outs, ins, body);
      } else {
        at[kept - 1] *= L::width;
        const index_t left = rows - at[kept - 1];
        if (left >= L::width)
          normalize_rows<Centered, L, kept - 1>(space, at, fixed<L::width>{}, count, epsilon, x,
                                                outs, ins, body);
        else
          normalize_rows<Centered, L, kept - 1>(space, at, left, count, epsilon, x, outs, ins,
                                                body);
      }
    }
  });
}

} // namespace cpu
} // namespace tenon

#endif
