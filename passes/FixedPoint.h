// Defines the fixed-point form of real factors: how sums of integers are rescaled without floats.
//
//   round(Σ factor_t · n_t + constant)  =  round_shift(Σ multiplier_t · n_t + addend, shift)
//
// with multiplier = round(factor · 2^shift), at most 31 bits, so that a product with a 32-bit sum
// is exact in 64 bits; round_shift rounds half to even. See passes/IntegerArithmetic.cpp.
#pragma once

#include "passes/QuantizedForm.h"

namespace tenon {

struct FixedPoint {
  /// One list per factor, of one number or one per channel.
  std::vector<std::vector<int64_t>> multipliers;
  /// One number, or one per channel where factors are too far apart to share one.
  std::vector<int64_t> shifts;

  int64_t multiplier(size_t term, size_t channel) const {
    const auto &m = multipliers[term];
    return m.size() == 1 ? m[0] : m[channel];
  }
  int64_t shift(size_t channel) const { return shifts.size() == 1 ? shifts[0] : shifts[channel]; }
};

/// Bits below which a shared shift would leave a channel's multiplier: each gets its own then.
inline constexpr int kLeastMultiplierBits = 26;

/// None when a factor is out of the range of 32-bit multipliers.
llvm::Optional<FixedPoint> toFixedPoint(llvm::ArrayRef<PerChannel> factors);

} // namespace tenon
