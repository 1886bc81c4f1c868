// Implements the choice of multipliers and shifts.
#include "passes/FixedPoint.h"

#include "llvm/Support/MathExtras.h"

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

llvm::Optional<HighProduct> toHighProduct(const FixedPoint &f, llvm::ArrayRef<int64_t> bounds) {
  if (f.multipliers.size() != 1)
    return llvm::None;
  HighProduct p;
  p.before = std::max<int64_t>(0, 33 - *std::min_element(f.shifts.begin(), f.shifts.end()));
  for (int64_t s : f.shifts)
    p.after.push_back(std::min<int64_t>(s + p.before - 32, 31));
  const size_t channels = std::max({bounds.size(), f.multipliers[0].size(), f.shifts.size()});
  for (size_t c = 0; c < channels; ++c) {
    const int64_t bound = bounds.size() == 1 ? bounds[0] : bounds[c], m = f.multiplier(0, c);
    const int64_t shift = f.shift(c);
    if (shift + p.before - 32 > 31 || bound > (int64_t(0x7fffffff) >> p.before))
      return llvm::None;
    // A product lies halfway only if 2^(s − 1) divides it; n has at most log2 of its bound factors
    // of 2.
    const int64_t twos = m == 0 ? 0 : int64_t(llvm::countTrailingZeros(uint64_t(m)));
    if (m != 0 && bound != 0 && int64_t(llvm::Log2_64(uint64_t(bound))) + twos >= shift - 1)
      return llvm::None;
  }
  return p;
}

} // namespace tenon
