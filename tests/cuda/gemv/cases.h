// Defines the configuration of gemv that its tests share.
#pragma once

#include "cuda/gemv/kernel.cuh"
#include "shared/harness.h"

namespace test {

template <index_t M, int Lanes, int Columns> struct gemv_case {
  static constexpr fixed<M> m{};
  dyn n, k;
  static constexpr int lanes = Lanes, columns = Columns;
};

} // namespace test
