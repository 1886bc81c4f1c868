// Defines constant weights of contractions of integers as small as they can be written: signed
// bytes, without a zero point where the values allow it.
//
//   w − z                               where all of these fit into a signed byte
//   (w − 128) − (z − 128)               of unsigned bytes, else
#pragma once

#include "passes/QuantizedForm.h"
#include "passes/Rewrite.h"

namespace tenon {

struct IntegerWeights {
  Tensor values;
  std::vector<int64_t> zeros; // empty: 0; else one number, or one of each output channel
  bool perChannel() const { return zeros.size() > 1; }
  /// The operand that says the zero points, which are some.
  Value *zerosOperand(Builder &b) const;
};

/// `w` less its zero points; None where neither they nor the weights can be left as bytes.
llvm::Optional<IntegerWeights> integerWeights(const Dequantized &w);

/// conv and matmul of bytes with weights that can be written smaller.
bool signedWeightsPattern(Operation &op, Rewriter &rw);

} // namespace tenon
