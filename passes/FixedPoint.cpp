// Implements the choice of multipliers and shifts.
#include "passes/FixedPoint.h"

#include <algorithm>
#include <cmath>

namespace tenon {
namespace {

constexpr int64_t kMostShift = 62;

/// The largest shift that leaves factor · 2^shift in 31 bits; None when the factor is no finite
/// number or has more bits than that by itself.
llvm::Optional<int64_t> shiftFor(double factor) {
  if (factor == 0)
    return kMostShift;
  if (!std::isfinite(factor))
    return llvm::None;
  int exponent; // |factor| = fraction · 2^exponent with fraction in [1/2, 1)
  const double fraction = std::frexp(std::fabs(factor), &exponent);
  // Rounding may carry into the 32nd bit.
  const int64_t bits = std::nearbyint(std::ldexp(fraction, 31)) >= 2147483648.0 ? 30 : 31;
  const int64_t shift = bits - exponent;
  return shift < 0 ? llvm::Optional<int64_t>() : std::min(shift, kMostShift);
}

} // namespace

llvm::Optional<FixedPoint> toFixedPoint(llvm::ArrayRef<PerChannel> factors) {
  int64_t least = kMostShift, most = 0;
  for (const PerChannel &list : factors)
    for (double v : list) {
      auto shift = shiftFor(v);
      if (!shift)
        return llvm::None;
      least = std::min(least, *shift);
      if (v != 0)
        most = std::max(most, *shift);
    }
  FixedPoint f;
  const bool shared = factors.size() > 1 || most - least <= 31 - kLeastMultiplierBits;
  f.shifts = {least};
  if (!shared) {
    f.shifts.clear();
    for (double v : factors[0])
      f.shifts.push_back(*shiftFor(v));
  }
  for (const PerChannel &list : factors) {
    std::vector<int64_t> m;
    for (size_t c = 0; c < list.size(); ++c)
      m.push_back(std::llrint(std::ldexp(list[c], int(f.shift(c)))));
    f.multipliers.push_back(std::move(m));
  }
  return f;
}

} // namespace tenon
