// Defines `resize_any`: resampling along any number of dimensions, one thread per element, for what
// kernel.cuh does not take (more than two dimensions, integers, regions that reach outside).
//
//   outs[p] = body(sum over t... of (product over d of weight_d(p_d, t_d)) *
//                  x[index_d(p_d, t_d)...], ins[p]...)
//
// Config: space (dims of the result). axes: pack with an axis as in kernel.cuh for each dimension;
// an index of -1 means that the element is `fill`. Integers are weighed in double and rounded half
// to even. x, outs, ins over their own dimensions.
#ifndef TENON_RUNTIME_CUDA_RESIZE_ANY_CUH
#define TENON_RUNTIME_CUDA_RESIZE_ANY_CUH

#include "common/scalar_cast.h"
#include "cuda/base/computed.cuh"
#include "cuda/resize/kernel.cuh"

namespace tenon {
namespace cuda {

template <class Config, class X, class Axes, class Outs, class Ins, class Body>
struct resize_any_kernel {
  using value = compute_t<typename X::element>;

  Config cfg;
  X x;
  Axes axes;
  value fill;
  Outs outs;
  Ins ins;
  Body body;

  static constexpr int rank = decltype(Config::space)::rank;
  static constexpr int threads = 128, blocks_per_sm = 1;

  grid blocks() const { return {ceil_div(volume(cfg.space), index_t(threads)), 1, 1}; }

  TENON_DEVICE void run(unsigned char *) const {
    int at[rank], point[rank];
    unravel<rank>(cfg.space, block_x() * threads + thread(), at);
    if (at[0] >= int(index_t(cfg.space.template get<0>())))
      return;
    bool inside = true;
    const sum_type sum = gather<0>(at, point, inside);
    value result[1];
    if constexpr (detail::is_same<sum_type, value>)
      result[0] = sum;
    else
      result[0] = cast<scalar_lanes, value, sum_type>(round<scalar_lanes>(sum));
    if (!inside)
      result[0] = fill;
    apply_body<rank - 1>(body, outs, ins, at, 1, result);
  }

private:
  template <class... As> TENON_FN static constexpr bool copies(const arguments<As...> *) {
    return ((As::taps == 1) && ...);
  }
  static constexpr bool keeps_type =
      copies(static_cast<const Axes *>(nullptr)) || tenon::detail::is_float<value>;
  using sum_type = typename tenon::detail::choose_type<keeps_type, value, double>::type;

  /// Sum over the taps of dimensions D and up; false in `inside` when one reads nothing.
  template <int D>
  TENON_DEVICE sum_type gather(const int (&at)[rank], int (&point)[rank], bool &inside) const {
    if constexpr (D == rank) {
      return sum_type(load_one(x, point));
    } else {
      const auto &axis = axes.template get<D>();
      constexpr int taps = detail::bare<decltype(axis)>::taps;
      sum_type sum = 0;
      for (int t = 0; t < taps; ++t) {
        point[D] = axis.index(at[D], t);
        if (point[D] < 0) {
          inside = false;
          return sum;
        }
        const sum_type v = gather<D + 1>(at, point, inside);
        if constexpr (taps == 1)
          sum = v;
        else if constexpr (tenon::detail::is_float<value>)
          sum = mul_add(sum_type(axis.weight(at[D], t)), v, sum);
        else // ties of integers fall as on every target
          sum = sum + sum_type(axis.weight(at[D], t)) * v;
      }
      return sum;
    }
  }
};

template <class Config, class X, class Axes, class Outs, class Ins, class Body>
resize_any_kernel<Config, X, Axes, Outs, Ins, Body> resize_any(Config cfg, X x, Axes axes,
                                                               compute_t<typename X::element> fill,
                                                               Outs outs, Ins ins, Body body) {
  return {cfg, x, axes, fill, outs, ins, body};
}

} // namespace cuda
} // namespace tenon

#endif
