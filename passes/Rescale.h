// Defines how a quantised sum becomes one map of integers.
#pragma once

#include "passes/NarrowRescale.h"

namespace tenon {

class Rewriter;

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
};

/// `ranges`: of the terms' tensors, one or one per channel; empty where unknown. None with the
/// reason when a factor does not fit.
llvm::Optional<RescalePlan> planRescale(const QuantizedSum &q, Element to,
                                        llvm::ArrayRef<ChannelRanges> ranges, std::string &why);

enum class RescaleForm { Wide, High, Short };

/// The map for `plan`. `tensors` are the integer tensors of the terms, in order.
Value *buildRescale(Builder &b, const QuantizedSum &q, const RescalePlan &plan, RescaleForm form,
                    llvm::ArrayRef<Value *> tensors, Type result);

} // namespace tenon
