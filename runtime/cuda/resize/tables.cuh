// Defines `resize_tables`: fills the tables of a resampled dimension whose extents are known only
// at run time (common/resize_axis.h), for `resize` and `resize_any`.
//
// Algorithm: a thread for each output index. indices, weights: [out][taps] in scratch.
#ifndef TENON_RUNTIME_CUDA_RESIZE_TABLES_CUH
#define TENON_RUNTIME_CUDA_RESIZE_TABLES_CUH

#include "common/resize_axis.h"
#include "cuda/base/operands.cuh"

namespace tenon {
namespace cuda {

template <class Axis, class Weight> struct resize_tables_kernel {
  Axis axis;
  int32_t *indices;
  Weight *weights;

  static constexpr int threads = 128, blocks_per_sm = 1;

  grid blocks() const { return {ceil_div(axis.out, index_t(threads)), 1, 1}; }
  TENON_DEVICE void run(unsigned char *) const {
    const int i = block_x() * threads + thread();
    if (i < int(axis.out))
      axis.row(i, indices + i * Axis::taps, weights + i * (Axis::taps > 1 ? Axis::taps : 0));
  }
};

template <class Axis, class Weight>
resize_tables_kernel<Axis, Weight> resize_tables(Axis axis, int32_t *indices, Weight *weights) {
  return {axis, indices, weights};
}

} // namespace cuda
} // namespace tenon

#endif
