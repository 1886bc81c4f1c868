// Defines when rescaling a sum of integers needs no 64-bit product, and what it computes instead.
//
//   clamp(round_shift(Σ n_t · m_t + addend, s), low, high)
//     = clamp((Σ mul_high(n_t · 2^before, m_t) + half) >> after, low, high)
//
// with after = s + before − 32. mul_high drops bits, so the two agree only where these decide
// nothing. That is known in two ways: one term without addend loses nothing as long as no product
// is a tie; terms with few values, such as the 8-bit operands of a residual addition, are tried
// out, all combinations of them.
#pragma once

#include "passes/ChannelRanges.h"
#include "passes/FixedPoint.h"

namespace tenon {

/// What is to be computed. Lists have one entry, or one per channel.
struct ScaledSum {
  const FixedPoint &fixed;
  std::vector<ChannelRanges> terms; // of each n_t
  llvm::ArrayRef<int64_t> addend;   // empty: nothing
  int64_t low, high;

  size_t channels() const;
  int64_t addendAt(size_t c) const {
    return addend.empty() ? 0 : addend.size() == 1 ? addend[0] : addend[c];
  }
  const Range &range(size_t term, size_t c) const {
    const ChannelRanges &r = terms[term];
    return r.size() == 1 ? r[0] : r[c];
  }
};

struct HighProducts {
  int64_t before = 0; // of all terms
  /// One number, or one per channel.
  std::vector<int64_t> after, half;
};
/// None where that would not be the same number, or overflow.
llvm::Optional<HighProducts> toHighProducts(const ScaledSum &sum);

/// The same sum in units as large as its multipliers allow: scales that are powers of two leave a
/// few bits of them.
struct ShortProducts {
  FixedPoint fixed;
  std::vector<int64_t> addend;
};
/// None where it still needs more than 32 bits.
llvm::Optional<ShortProducts> toShortProducts(const ScaledSum &sum);

} // namespace tenon
