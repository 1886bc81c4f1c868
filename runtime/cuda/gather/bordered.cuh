// Defines bordered_view: a tensor continued beyond its borders, for pads that are not constant. It
// is an operand of `map`; elements are read one by one.
//
//   border_edge     repeats the border           a a a b c c c
//   border_reflect  mirrors without the border   c b a b c b a
//   border_wrap     continues at the other end   b c a b c a b
#ifndef TENON_RUNTIME_CUDA_GATHER_BORDERED_CUH
#define TENON_RUNTIME_CUDA_GATHER_BORDERED_CUH

#include "cuda/base/operands.cuh"

namespace tenon {
namespace cuda {
namespace detail {
/// i modulo n, in [0, n).
TENON_FN index_t modulo(index_t i, index_t n) {
  i %= n;
  return i < 0 ? i + n : i;
}
} // namespace detail

struct border_edge {
  TENON_FN static index_t place(index_t i, index_t n) { return i < 0 ? 0 : i >= n ? n - 1 : i; }
};
struct border_reflect {
  TENON_FN static index_t place(index_t i, index_t n) {
    if (n == 1)
      return 0;
    i = detail::modulo(i, 2 * n - 2);
    return i < n ? i : 2 * n - 2 - i;
  }
};
struct border_wrap {
  TENON_FN static index_t place(index_t i, index_t n) { return detail::modulo(i, n); }
};

template <class Border, class T, class Strides, class Low, class Extents> struct bordered_view {
  using element = T;
  static constexpr int rank = Strides::rank;
  element_pointer<T> data; // of element 0
  Strides strides;
  Low low; // elements added before the first
  Extents extents;
};

template <class Border, class T, class S, class Low, class Extents>
TENON_FN bordered_view<Border, T, S, Low, Extents> make_bordered_view(T *data, S strides, Low low,
                                                                      Extents extents) {
  return {data, strides, low, extents};
}
template <class Border, class T, class S, class Low, class Extents>
TENON_FN bordered_view<Border, T, S, Low, Extents>
make_bordered_view(packed_pointer<T> data, S strides, Low low, Extents extents) {
  return {data, strides, low, extents};
}

namespace detail {
template <class Border, int D = 0, class View, class Index, int Rank>
TENON_FN index_t bordered_offset(const View &v, const Index (&at)[Rank]) {
  if constexpr (D == View::rank)
    return 0;
  else
    return index_t(v.strides.template get<D>()) *
               Border::place(at[D] - index_t(v.low.template get<D>()),
                             v.extents.template get<D>()) +
           bordered_offset<Border, D + 1>(v, at);
}
} // namespace detail

template <int Along, int V, class Border, class T, class S, class Low, class Extents, class Index,
          int Rank>
TENON_DEVICE void load_operand(compute_t<T> (&x)[V],
                               const bordered_view<Border, T, S, Low, Extents> &v,
                               const Index (&at)[Rank], int count) {
  Index point[Rank];
  TENON_UNROLL
  for (int d = 0; d < Rank; ++d)
    point[d] = at[d];
  TENON_UNROLL
  for (int i = 0; i < V; ++i) {
    point[Along] = at[Along] + i;
    x[i] = i < count ? load_element(v.data + detail::bordered_offset<Border>(v, point))
                     : compute_t<T>{};
  }
}

} // namespace cuda
} // namespace tenon

#endif
