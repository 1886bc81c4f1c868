// Defines what the tests of kernels by warpgroups share: how weights lie, what sums may lose, and
// cases of floats. A test adds the kernels, `conv` and `matmul`, and their name.
#pragma once

#include "shared/volume_cases.h"

namespace test {

/// Operands are exact; sums are fp32; results of 16 bits are rounded.
template <class T, stored_as Stored = stored_as::given> struct warpgroup_weights {
  using weight = T;
  using packing = rounded_rows<16 / sizeof(T), Stored>;
  template <class U> static constexpr double tolerance() { return rounding<U>() + 1e-6; }
};
/// As of 10 bits that are rounded: cut off, they would err by more.
struct tf32_weights : warpgroup_weights<float, stored_as::rounded> {
  template <class U> static constexpr double tolerance() { return 4e-4; }
};

/// Floats, by kernels whose weights are stored in one way.
template <class Kernels, class Small, class Thin, class Thinnest, class Shared, class Large>
void floats() {
  conv<Kernels, float, Small, 32, 32, 1>(1, 8, 9, 1, 1, 0);
  conv<Kernels, float, Small, 12, 40, 3>(2, 9, 7, 1, 1, 1);
  conv<Kernels, float, known_runs<Thin>, 24, 70, 3>(1, 11, 13, 2, 1, 1);
  conv<Kernels, float, Thinnest, 8, 33, 5>(3, 12, 6, 3, 2, 4);
  conv<Kernels, float, Shared, 32, 130, 3>(2, 9, 10, 1, 1, 0);
  conv<Kernels, float, Large, 64, 200, 3>(2, 9, 10, 1, 1, 1);
  conv<Kernels, float, Small, 32, 20, 3, 3>(1, 7, 6, 1, 1, 1);
  conv<Kernels, float, Small, 68, 40, 1, 1, true>(1, 11, 13, 2, 1, 0);
  conv<Kernels, float, Shared, 200, 130, 1, 1, true>(2, 9, 10, 1, 1, 0);
  matmul<Kernels, float, Small, 72, true>(2, 70, 40, true);
  matmul<Kernels, float, Large, 200, true>(1, 150, 136, true);
  volumes<Kernels, float, Thin, 16>();
}

} // namespace test
