// Declares which of an attention's operands is which.
#pragma once

#include "ir/Op.h"

namespace tenon {

/// Places of the operands that an attention may have; 0: it has none. `first` has integers, the
/// others floats. Parts, of which there are `factors`, are neighbours.
struct AttentionOperands {
  unsigned bias = 0, parts = 0, first = 0;
  unsigned factors = 0;

  /// Whether operand i is added to scores.
  bool isAdded(unsigned i) const {
    return i > 0 && (i == bias || (i >= parts && i < parts + factors));
  }
};
AttentionOperands attentionOperands(const Operation &attention);

/// Part i of what is added to the score of key n is that of coordinate n / step mod extent.
struct AttentionFactor {
  int64_t step, extent;
};
AttentionFactor attentionFactor(const Operation &attention, unsigned i);

} // namespace tenon
