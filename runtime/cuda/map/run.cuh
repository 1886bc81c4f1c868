// Defines which points of an iteration space a thread of a map has: a run along one dimension.
#ifndef TENON_RUNTIME_CUDA_MAP_RUN_CUH
#define TENON_RUNTIME_CUDA_MAP_RUN_CUH

#include "cuda/base/operands.cuh"

namespace tenon {
namespace cuda {

/// Runs of at most Vector points along dimension Along of a space, for blocks of Threads; a run
/// that hits the end of that dimension is cut. Dimensions behind Along are the kernel's own.
template <int Along, int Vector, int Threads> struct runs_along {
  /// A grid with a thread for each; `points`: of the space without the dimensions behind Along.
  template <class Space> static grid blocks(const Space &space, index_t points) {
    const index_t inner = space.template get<Along>();
    const index_t rows = inner ? points / inner : 0;
    return {ceil_div(rows * ceil_div(inner, index_t(Vector)), index_t(Threads)), 1, 1};
  }
  /// Where this thread's begins, in the dimensions up to Along, and how many points it has; 0
  /// beyond the space.
  template <class Space, class Index, int Rank>
  TENON_DEVICE static int own(const Space &space, Index (&at)[Rank]) {
    const Index inner = Index(index_t(space.template get<Along>()));
    const Index chunks = ceil_div(inner, Index(Vector));
    const Index n = Index(block_x()) * Threads + thread();
    const Index row = n / chunks;
    at[Along] = (n - row * chunks) * Vector;
    if constexpr (Along == 0) {
      if (row > 0)
        return 0;
    } else {
      unravel<Along>(space, row, at);
      if (at[0] >= Index(index_t(space.template get<0>())))
        return 0;
    }
    return int(min_of(inner - at[Along], Index(Vector)));
  }
};

} // namespace cuda
} // namespace tenon

#endif
