// Defines computed_view: an operand that is computed where it is read. Kernels that load their
// operands through load_at take it in place of a view; this is how a prologue reaches them.
//
//   make_computed_view<float, 4>(pack(views...), functor)   element type, rank
#ifndef TENON_RUNTIME_CPU_COMPUTED_H
#define TENON_RUNTIME_CPU_COMPUTED_H

#include "common/scalar_arith.h"
#include "cpu/epilogue.h"

namespace tenon {
namespace cpu {
namespace detail {

// In this namespace, so that kernels find its load_at by its argument.
template <class T, int Rank, class Ins, class Body> struct computed_view {
  using element = const T;
  static constexpr int rank = Rank;
  Ins ins;
  Body body;
};

template <class L, int Axis, class Ins, class Body, class Count, int... I>
TENON_FN auto compute_at(indices<I...>, const Ins &ins, const Body &body, const index_t *at,
                         Count count) {
  return body(L{}, load_at<L, Axis>(ins.template get<I>(), at, count)...);
}

template <class L, int Axis, class T, int Rank, class Ins, class Body, class Count>
TENON_FN auto load_at(const computed_view<T, Rank, Ins, Body> &v, const index_t *at, Count count) {
  return compute_at<L, Axis>(indices_to<Ins::count>{}, v.ins, v.body, at, count);
}

} // namespace detail

template <class T, int Rank, class Ins, class Body>
TENON_FN detail::computed_view<T, Rank, Ins, Body> make_computed_view(Ins ins, Body body) {
  return {ins, body};
}

namespace detail {

template <class T, class Body> struct stored_body {
  Body body;
  template <class L, class V, class... Vs> TENON_FN auto operator()(L, V x, Vs... rest) const {
    return body(L{}, tenon::detail::convert<typename L::template of<T>>(x), rest...);
  }
};

} // namespace detail

/// A prologue whose first operand is stored in T, for kernels that hand it over in their own
/// accumulator type.
template <class T, class Body> TENON_FN detail::stored_body<T, Body> stored_as(Body body) {
  return {body};
}

/// The prologue of integer contractions: x - zero, in x's type.
struct less_zero_point {
  template <class L, class V, class Z> TENON_FN V operator()(L, V x, Z zero) const {
    return sub<L>(x, tenon::detail::convert<V>(zero));
  }
};

} // namespace cpu
} // namespace tenon

#endif
