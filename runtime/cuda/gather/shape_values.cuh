// Defines shape_values: an operand of `map` over one dimension that reads as a list of extents.
#ifndef TENON_RUNTIME_CUDA_GATHER_SHAPE_VALUES_CUH
#define TENON_RUNTIME_CUDA_GATHER_SHAPE_VALUES_CUH

#include "cuda/base/operands.cuh"

namespace tenon {
namespace cuda {

template <class Shape> struct shape_values {
  using element = const int64_t;
  Shape shape;
};
template <class Shape> TENON_FN shape_values<Shape> make_shape_values(Shape shape) {
  return {shape};
}

namespace detail {
template <int I = 0> TENON_DEVICE int64_t entry_of(dims<>, int) { return 0; }
template <int I = 0, class D, class... Rest>
TENON_DEVICE int64_t entry_of(const dims<D, Rest...> &shape, int i) {
  return i == I ? int64_t(index_t(shape.head)) : entry_of<I + 1>(shape.tail, i);
}
} // namespace detail

template <int Along, int V, class Shape, class Index, int Rank>
TENON_DEVICE void load_operand(int64_t (&x)[V], const shape_values<Shape> &v,
                               const Index (&at)[Rank], int) {
  static_assert(Along == 0 && Rank == 1, "a shape has one dimension");
  TENON_UNROLL
  for (int i = 0; i < V; ++i)
    x[i] = detail::entry_of(v.shape, int(at[0]) + i);
}

} // namespace cuda
} // namespace tenon

#endif
