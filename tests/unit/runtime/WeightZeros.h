// Defines what the tests of conv_bytes and depthwise_bytes share: zero points of weights.
#pragma once

#include "IntegerCases.h"

#include "cpu/byte_sums.h"

#include <algorithm>

namespace tenon {

inline constexpr int W = native_lanes::width;

/// Zero points of weights of so many filters: one of all of them, which only takes the sums by
/// another operand and is for a few shapes; else none, and one of each.
template <bool OfAll> struct zero_points {
  std::vector<int32_t> of;

  explicit zero_points(index_t filters) : of(size_t(filters + std::max(W, 8))) {
    for (index_t k = 0; k < filters; ++k)
      of[size_t(k)] = int32_t(k * 29 % 256) - 128;
  }
  /// run(zeros, those of each filter)
  template <class Run> void forEach(const Run &run) const {
    if constexpr (OfAll) {
      run(cpu::one_weight_zero{-97}, std::vector<int32_t>(of.size(), -97));
    } else {
      run(cpu::no_weight_zeros{}, std::vector<int32_t>(of.size(), 0));
      run(cpu::weight_zeros{of.data()}, of);
    }
  }
};
/// Weights less the zero points of their filters.
inline std::vector<int32_t> lessZeros(const std::vector<int8_t> &w, index_t filters,
                                      const std::vector<int32_t> &zeros) {
  std::vector<int32_t> less(w.begin(), w.end());
  for (size_t i = 0; i < w.size(); ++i)
    less[i] -= zeros[i / (w.size() / size_t(filters))];
  return less;
}

} // namespace tenon
