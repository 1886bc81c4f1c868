// Declares which of a recurrent layer's operands is which, and the extents that kernels ask about.
#pragma once

#include "ir/Element.h"
#include "ir/Op.h"

namespace tenon {

/// What a `recurrent` (ir/ops/recurrent.cpp) is made of.
struct RecurrentShape {
  unsigned products = 1, states = 1, extras = 0;
  /// Of each product, and of the inputs' share: multiples of `hidden`.
  unsigned gates[2] = {0, 0}, inputs = 0;
  int64_t hidden = 0;
  /// Rows of the batch, at most.
  int64_t rows = 0;
  Element element = Element::F32;

  // Places of operands; the first is the inputs' share.
  unsigned weights(unsigned product) const { return 1 + product; }
  unsigned state(unsigned i) const { return 1 + products + i; }
  unsigned extra(unsigned i) const { return 1 + products + states + i; }
  unsigned operands() const { return extra(extras); }
  /// Arguments of the region behind product `i`.
  unsigned arguments(unsigned i) const {
    return inputs + gates[0] + (i > 0 ? gates[1] : 0) + states + extras;
  }
};
RecurrentShape recurrentShape(const Operation &recurrent);

} // namespace tenon
