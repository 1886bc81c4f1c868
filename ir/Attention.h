// Declares which of an attention's operands is which.
#pragma once

#include "ir/Op.h"

namespace tenon {

/// Places of the operands that an attention may have; 0: it has none. `first` has integers, the
/// bias floats.
struct AttentionOperands {
  unsigned bias = 0, first = 0;
};
AttentionOperands attentionOperands(const Operation &attention);

} // namespace tenon
