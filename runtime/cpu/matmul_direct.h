// Defines matmul_direct: batched product of operands of any element type and origin, one sum at a
// time. It is the kernel for what the blocked ones do not take (integers, computed operands) and
// makes no claim to speed.
//
//   y[p..., m, n] = body(sum over k of (a - a_zero)[p..., m, n, k] *
//                                      (b - b_zero)[p..., m, n, k], ins...)
//
//   matmul_direct<A>(space, k, a, a_zero, b, b_zero, outs, ins, body, workers)
//
// A: accumulator type; integers wrap. space: dims<...> of the result. a, b: views or computed_views
// over the space followed by k, with stride 0 in dimensions they do not have; a_zero, b_zero: the
// same, or no_zero_point. outs, ins: over the space.
#ifndef TENON_RUNTIME_CPU_MATMUL_DIRECT_H
#define TENON_RUNTIME_CPU_MATMUL_DIRECT_H

#include "common/scalar_arith.h"
#include "cpu/map.h"
#include "cpu/subnormals.h"

namespace tenon {
namespace cpu {

/// Stands where an operand has no zero point.
struct no_zero_point {};

namespace detail {

/// The operand at one point less its zero point, in the accumulator's type.
template <class A, int Axis, class X, class Zero>
TENON_FN A load_centred(const X &x, const Zero &zero, const index_t *at) {
  const A value = A(load_at<scalar_lanes, Axis>(x, at, fixed<1>{}));
  if constexpr (is_same<Zero, no_zero_point>)
    return value;
  else
    return sub<scalar_lanes>(value, A(load_at<scalar_lanes, Axis>(zero, at, fixed<1>{})));
}

/// acc + a*b; integers wrap.
template <class A> TENON_FN A multiply_add(A a, A b, A acc) {
  if constexpr (is_float<A>)
    return mul_add(a, b, acc);
  else
    return add<scalar_lanes>(acc, mul<scalar_lanes>(a, b));
}

} // namespace detail

template <class A, class Space, class K, class X, class XZero, class Y, class YZero, class Outs,
          class Ins, class Body>
void matmul_direct(const Space &space, K k, const X &a, const XZero &a_zero, const Y &b,
                   const YZero &b_zero, const Outs &outs, const Ins &ins, const Body &body,
                   pool &workers) {
  using namespace detail;
  constexpr int rank = Space::rank;
  odometer<rank> points;
  fill_extents<0>(space, points.extents);
  workers.parallel_for(points.size(), 1 + 16384 / (index_t(k) + 1),
                       [&](index_t begin, index_t end) {
                         const subnormals_as_zero guard;
                         odometer<rank> it = points;
                         it.seek(begin);
                         for (index_t u = begin; u < end; ++u, it.step()) {
                           index_t at[rank + 1];
                           for (int d = 0; d < rank; ++d)
                             at[d] = it.at[d];
                           A sum = A(0);
                           for (at[rank] = 0; at[rank] < index_t(k); ++at[rank])
                             sum = multiply_add(load_centred<A, rank>(a, a_zero, at),
                                                load_centred<A, rank>(b, b_zero, at), sum);
                           apply_body<scalar_lanes, rank - 1>(body, outs, ins, at, fixed<1>{}, sum);
                         }
                       });
}

} // namespace cpu
} // namespace tenon

#endif
