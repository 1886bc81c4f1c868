// Defines hold_inputs: the extra inputs of a body that are the same along a row of a tile, loaded
// once for all of it. A compiler cannot tell by itself: results that are bytes might be anything.
#ifndef TENON_RUNTIME_CPU_HELD_INPUTS_H
#define TENON_RUNTIME_CPU_HELD_INPUTS_H

#include "cpu/epilogue.h"

namespace tenon {
namespace cpu {
namespace detail {

/// An input's lanes, wherever it is read.
template <class V> struct held_lanes { V value; };
template <class L, int Axis, class V, class Count>
TENON_FN V load_at(const held_lanes<V> &held, const index_t *, Count) {
  return held.value;
}

/// Whether all strides but that of Axis are 0.
template <int Axis, class Strides> struct only_along;
template <int Axis> struct only_along<Axis, dims<>> { static constexpr bool value = true; };
template <int Axis, class D, class... Rest> struct only_along<Axis, dims<D, Rest...>> {
  static constexpr bool value =
      (Axis == 0 || is_same<D, fixed<0>>)&&only_along<Axis - 1, dims<Rest...>>::value;
};

template <class L, int Axis, class Input, class Count>
TENON_FN auto hold_input(const Input &input, const index_t *, Count) {
  return input;
}
template <class L, int Axis, class T, class S, class Count>
TENON_FN auto hold_input(const view<T, S> &input, const index_t *at, Count count) {
  if constexpr (only_along<Axis, S>::value) {
    const auto value = load_at<L, Axis>(input, at, count);
    return held_lanes<bare<decltype(value)>>{value};
  } else
    return input;
}

template <class L, int Axis, class Ins, class Count, int... I>
TENON_FN auto hold_inputs(indices<I...>, const Ins &ins, [[maybe_unused]] const index_t *at,
                          [[maybe_unused]] Count count) {
  return pack(hold_input<L, Axis>(ins.template get<I>(), at, count)...);
}
/// `ins` for points that differ from `at` in other dimensions than Axis.
template <class L, int Axis, class Ins, class Count>
TENON_FN auto hold_inputs(const Ins &ins, const index_t *at, Count count) {
  return hold_inputs<L, Axis>(indices_to<Ins::count>{}, ins, at, count);
}

} // namespace detail
} // namespace cpu
} // namespace tenon

#endif
