// Defines what arithmetic of extents starts from: the qualifier of functions for host and device,
// the index type, and quotients of it. The geometry of kernels (cuda/F/geometry.h), which the
// compiler includes, too, needs no more.
#ifndef TENON_RUNTIME_COMMON_ARITHMETIC_H
#define TENON_RUNTIME_COMMON_ARITHMETIC_H

#if defined(__CUDACC__)
#define TENON_FN __host__ __device__ __forceinline__
#elif defined(__GNUC__)
#define TENON_FN inline __attribute__((always_inline))
#else
#define TENON_FN inline
#endif

namespace tenon {

/// Signed index wide enough for every element offset of a model (32 bits suffice on small targets).
#if defined(TENON_INDEX)
using index_t = TENON_INDEX;
#else
using index_t = long;
#endif

TENON_FN constexpr index_t ceil_div(index_t a, index_t b) { return (a + b - 1) / b; }

// Arithmetic of extents that follow from others; divisions round down, and by 0 give 0.
TENON_FN constexpr index_t dim_min(index_t a, index_t b) { return b < a ? b : a; }
TENON_FN constexpr index_t dim_max(index_t a, index_t b) { return a < b ? b : a; }
TENON_FN constexpr index_t dim_floor_div(index_t a, index_t b) {
  return b == 0 ? 0 : a / b - (a % b != 0 && (a < 0) != (b < 0));
}

// The same in whatever type a CUDA kernel counts in.
namespace cuda {

template <class T> TENON_FN constexpr T min_of(T a, T b) { return b < a ? b : a; }
template <class T> TENON_FN constexpr T max_of(T a, T b) { return a < b ? b : a; }
template <class T> TENON_FN constexpr T ceil_div(T a, T b) { return (a + b - 1) / b; }

} // namespace cuda
} // namespace tenon

#endif
