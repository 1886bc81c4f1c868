// Defines softmax, or with Log its logarithm:
//
//   y[i..., j] = body(e^(x[i, j] - max) / sum over j of e^(x[i, j] - max), ins[i, j]...)
//
//   softmax<Log>(space, x, outs, ins, body, workers)     Log: false, or true for log-softmax
//
// space: dims<...> whose last dimension is the normalised one; x, outs, ins: views over it. Three
// passes: maximum, sum of exponentials, results. A result may be written over x, so exponentials
// wait on the stack: of rows of up to 32,768 elements where their length is `fixed`, else of up to
// 2,048. Those of longer rows are computed twice. x is computed
// in f32 (f64 for f64). Lanes run along the normalised dimension when x is contiguous there and it
// fills a vector, else along the last other dimension (thousands of rows of two classes; an inner
// axis of NCHW).
#ifndef TENON_RUNTIME_CPU_SOFTMAX_H
#define TENON_RUNTIME_CPU_SOFTMAX_H

#include "common/scalar_math.h"
#include "cpu/reduce.h"
#include "cpu/sum_lanes.h"

namespace tenon {
namespace cpu {
namespace detail {

template <bool Log, class L, class V> TENON_FN V softmax_result(V x, V largest, V sum) {
  if constexpr (Log)
    return (x - largest) - sum; // here `sum` is its logarithm
  else
    return exp<L>(x - largest) * sum; // and here its reciprocal
}
template <bool Log, class L, class V> TENON_FN V softmax_factor(V sum) {
  if constexpr (Log)
    return log<L>(sum);
  else
    return reciprocal<L>(sum);
}

/// How many exponentials of a row may wait.
template <class N> constexpr index_t softmax_room() {
  if constexpr (N::is_fixed)
    return N::value <= 32768 ? N::value : 0;
  else
    return 2048;
}

/// One row, lanes along it.
template <bool Log, class L, int Axis, class N, class X, class Outs, class Ins, class Body>
TENON_FN void softmax_row(N extent, index_t *at, const X &x, const Outs &outs, const Ins &ins,
                          const Body &body) {
  const index_t n = extent;
  using T = compute_t<typename X::element>;
  using V = typename L::template of<T>;
  const auto wide = [&](index_t i) TENON_LAMBDA {
    at[Axis] = i;
    return load_at<L, Axis>(x, at, fixed<L::width>{});
  };
  const auto single = [&](index_t i) TENON_LAMBDA {
    at[Axis] = i;
    return load_at<scalar_lanes, Axis>(x, at, fixed<1>{});
  };
  // A NaN is no maximum: it comes back as the sum.
  const auto greater = [](auto a, auto b) TENON_LAMBDA { return a > b ? a : b; };
  T largest = T(-INFINITY), sum = T(0);
  V most = V{} + largest, sums = V{};
  index_t i = 0;
  constexpr int chains = 4; // a maximum waits for the one before
  if (n >= 2 * chains * L::width) {
    V each[chains];
    unroll<chains>([&](auto k) TENON_LAMBDA { each[k] = most; });
    for (; i + chains * L::width <= n; i += chains * L::width)
      unroll<chains>(
          [&](auto k) TENON_LAMBDA { each[k] = larger<L>(wide(i + int(k) * L::width), each[k]); });
    unroll<chains>([&](auto k) TENON_LAMBDA { most = larger<L>(each[k], most); });
  }
  for (; i + L::width <= n; i += L::width)
    most = larger<L>(wide(i), most);
  largest = fold_lanes<T>(most, greater);
  for (; i < n; ++i)
    largest = larger<scalar_lanes>(single(i), largest);
  most = broadcast<L, T>(largest);
  constexpr index_t room = Log || L::width == 1 ? 0 : softmax_room<N>();
  alignas(64) T powers[room > 0 ? room : 1];
  const bool kept = n <= room;
  for (i = 0; i + L::width <= n; i += L::width) {
    const V power = exp<L>(V(wide(i) - most));
    if (kept)
      store<L, T>(powers + i, power);
    sums = sums + power;
  }
  for (; i < n; ++i)
    sum += exp<scalar_lanes>(T(single(i) - largest));
  sum += sum_lanes<T>(sums);
  const T factor = softmax_factor<Log, scalar_lanes>(sum);
  for (i = 0; i + L::width <= n; i += L::width) {
    at[Axis] = i;
    const V y = kept ? V(load<L>(powers + i) * factor)
                     : softmax_result<Log, L>(wide(i), most, broadcast<L, T>(factor));
    apply_body<L, Axis>(body, outs, ins, at, fixed<L::width>{}, y);
  }
  for (; i < n; ++i) {
    const T y = softmax_result<Log, scalar_lanes>(single(i), largest, factor);
    apply_body<scalar_lanes, Axis>(body, outs, ins, at, fixed<1>{}, y);
  }
}

/// `count` rows side by side, lanes along dimension Axis.
template <bool Log, class L, int Axis, class X, class Outs, class Ins, class Body, class Count>
TENON_FN void softmax_rows(index_t n, index_t *at, Count count, const X &x, const Outs &outs,
                           const Ins &ins, const Body &body) {
  using T = compute_t<typename X::element>;
  using V = typename L::template of<T>;
  constexpr int last = X::rank - 1;
  const auto element = [&](index_t i) TENON_LAMBDA {
    at[last] = i;
    return load_at<L, Axis>(x, at, count);
  };
  V largest = V{} - T(INFINITY), sum = V{};
  for (index_t i = 0; i < n; ++i)
    largest = larger<L>(element(i), largest); // a NaN comes back as the sum
  for (index_t i = 0; i < n; ++i)
    sum = sum + exp<L>(V(element(i) - largest));
  const V factor = softmax_factor<Log, L>(sum);
  for (index_t i = 0; i < n; ++i) {
    const V y = softmax_result<Log, L>(element(i), largest, factor);
    apply_body<L, Axis>(body, outs, ins, at, count, y);
  }
}

} // namespace detail

template <bool Log, class Space, class X, class Outs, class Ins, class Body>
void softmax(const Space &space, const X &x, const Outs &outs, const Ins &ins, const Body &body,
             pool &workers) {
  using namespace detail;
  constexpr int rank = Space::rank;
  static_assert(rank > 0, "softmax needs a dimension");
  using L = lanes_for<compute_t<typename X::element>>;
  const auto axis = space.template get<rank - 1>();
  constexpr bool along_axis = rank == 1 || (lane_fit<rank - 1, X>::value == 1 &&
                                            !shorter_than<bare<decltype(axis)>>(L::width));
  odometer<rank> outer;
  fill_extents<0>(space, outer.extents);
  outer.extents[rank - 1] = 1;
  index_t rows = 1;
  if constexpr (!along_axis) {
    rows = outer.extents[rank - 2];
    outer.extents[rank - 2] = ceil_div(rows, L::width);
  }
  workers.parallel_for(
      outer.size(), 1 + 4096 / (index_t(axis) + 1), [&](index_t begin, index_t end) {
        odometer<rank> it = outer;
        it.seek(begin);
        for (index_t u = begin; u < end; ++u, it.step()) {
          index_t at[rank];
          for (int d = 0; d < rank; ++d)
            at[d] = it.at[d];
          if constexpr (along_axis) {
            softmax_row<Log, L, rank - 1>(axis, at, x, outs, ins, body);
          } else {
            at[rank - 2] *= L::width;
            const index_t left = rows - at[rank - 2];
            if (left >= L::width)
              softmax_rows<Log, L, rank - 2>(axis, at, fixed<L::width>{}, x, outs, ins, body);
            else
              softmax_rows<Log, L, rank - 2>(axis, at, left, x, outs, ins, body);
          }
        }
      });
}

} // namespace cpu
} // namespace tenon

#endif
