// Defines how a quantised sum becomes one map of integers.
#pragma once

#include "passes/NarrowRescale.h"

namespace tenon {

class Rewriter;

/// Of a step of the result: what floats may be off a real number that is no exact product of
/// theirs.
inline constexpr double kMostFloatError = 0x1p-12;

/// The sum in f32, n_t the integers: round(Σ multiplier_t · n_t + addend) + zero. Lists have one
/// entry, or one per channel.
struct FloatProducts {
  std::vector<std::vector<double>> multipliers;
  std::vector<double> addend;
  /// What of the zero point is not in `addend`: an odd one would change which way a tie goes.
  int64_t zero = 0;
};

/// What a quantised sum needs to become integer, found before anything is changed.
struct RescalePlan {
  FixedPoint fixed;
  /// Added to the one term before it is multiplied, in its units; empty: nothing.
  std::vector<int64_t> bias;
  /// Added to the products; empty: nothing.
  std::vector<int64_t> addend;
  /// Bounds of the results, which saturation and clamping give.
  int64_t low = 0, high = 0;
  /// Set where 32 bits suffice: in general, or because multipliers are short.
  llvm::Optional<HighProducts> highProducts;
  llvm::Optional<ShortProducts> shortProducts;
  /// Set where floats come as close as kMostFloatError to the real number.
  llvm::Optional<FloatProducts> floatProducts;
};

/// `ranges`: of the terms' tensors, one or one per channel; empty where unknown. None with the
/// reason when a factor does not fit.
llvm::Optional<RescalePlan> planRescale(const QuantizedSum &q, Element to,
                                        llvm::ArrayRef<ChannelRanges> ranges, std::string &why);

enum class RescaleForm { Wide, High, Short, Float };

/// The map for `plan`. `tensors` are the integer tensors of the terms, in order.
Value *buildRescale(Builder &b, const QuantizedSum &q, const RescalePlan &plan, RescaleForm form,
                    llvm::ArrayRef<Value *> tensors, Type result);

} // namespace tenon
