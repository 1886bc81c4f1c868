// Defines what kernels of attention write: a view, or what a body makes of each result.
#ifndef TENON_RUNTIME_CUDA_ATTENTION_RESULTS_CUH
#define TENON_RUNTIME_CUDA_ATTENTION_RESULTS_CUH

#include "cuda/base/operands.cuh"

namespace tenon {
namespace cuda {

/// In place of the view y: outs[at] = body(y[at], ins[at]...), where y has been rounded to the
/// operands' type. Views over (batch..., m, e).
template <class Outs, class Ins, class Body> struct attention_results {
  Outs outs;
  Ins ins;
  Body body;

  /// `count` results from the point `at` on, neighbours along the last dimension.
  template <class Index, int Rank, int V>
  TENON_DEVICE void store(const Index (&at)[Rank], int count, const float (&x)[V]) const {
    apply_body<Rank - 1>(body, outs, ins, at, count, x);
  }
};
template <class Outs, class Ins, class Body>
TENON_FN attention_results<Outs, Ins, Body> make_attention_results(Outs outs, Ins ins, Body body) {
  return {outs, ins, body};
}

namespace detail {
template <class Y> constexpr bool has_attention_body = false;
template <class Outs, class Ins, class Body>
constexpr bool has_attention_body<attention_results<Outs, Ins, Body>> = true;
} // namespace detail

} // namespace cuda
} // namespace tenon

#endif
