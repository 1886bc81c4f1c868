// Defines computed_view: an operand that is computed where it is read. Kernels that load their
// operands through load_operand take it in place of a view; this is how a prologue reaches them.
//
//   make_computed_view<float, 4>(pack(views...), functor)   element type, rank
#ifndef TENON_RUNTIME_CUDA_BASE_COMPUTED_CUH
#define TENON_RUNTIME_CUDA_BASE_COMPUTED_CUH

#include "cuda/base/operands.cuh"

namespace tenon {
namespace cuda {

template <class T, int Rank, class Ins, class Body> struct computed_view {
  using element = const T;
  static constexpr int rank = Rank;
  Ins ins;
  Body body;
};

template <class T, int Rank, class Ins, class Body>
TENON_FN computed_view<T, Rank, Ins, Body> make_computed_view(Ins ins, Body body) {
  return {ins, body};
}

template <int Along, int V, class T, int Rank, class Ins, class Body, class Index, int Coordinates>
TENON_DEVICE void load_operand(compute_t<T> (&x)[V], const computed_view<T, Rank, Ins, Body> &v,
                               const Index (&at)[Coordinates], int count) {
  operand_runs<V, Ins> operands;
  operands.template load<Along>(v.ins, at, count);
  TENON_UNROLL
  for (int i = 0; i < V; ++i)
    x[i] = operands.call(v.body, i);
}

} // namespace cuda
} // namespace tenon

#endif
