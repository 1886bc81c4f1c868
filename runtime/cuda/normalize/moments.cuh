// Defines row_moments, what parts of a row know of its mean and variance, and how they are merged.
#ifndef TENON_RUNTIME_CUDA_NORMALIZE_MOMENTS_CUH
#define TENON_RUNTIME_CUDA_NORMALIZE_MOMENTS_CUH

#include "common/scalar.h"
#include "cuda/base/operands.cuh"

namespace tenon {
namespace cuda {

/// Of `count` elements: their mean and the sum of squared deviations from it.
template <class T> struct row_moments {
  T count, mean, squares;

  TENON_DEVICE static row_moments none() { return {0, 0, 0}; }
  template <bool Centered> TENON_DEVICE static row_moments merged(row_moments a, row_moments b) {
    const T count = a.count + b.count, apart = b.mean - a.mean;
    const T share = count > 0 ? b.count / count : T(0);
    if constexpr (!Centered)
      return {count, 0, a.squares + b.squares};
    else
      return {count, a.mean + apart * share,
              a.squares + b.squares + apart * apart * a.count * share};
  }
};
template <class T, bool Centered> struct joined_moments : row_moments<T> {
  using base = row_moments<T>;
  TENON_DEVICE static joined_moments none() { return {base::none()}; }
  TENON_DEVICE joined_moments joined(const joined_moments &b) const {
    return {base::template merged<Centered>(*this, b)};
  }
};

} // namespace cuda
} // namespace tenon

#endif
