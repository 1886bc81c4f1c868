// Defines patterns of integer-arithmetic for what is no sum: functions of one tensor of bytes.
#pragma once

#include "passes/Rewrite.h"

namespace tenon {

// quantize(f(dequantize x)) = lookup x
bool tablePattern(Operation &op, Rewriter &rw);
// quantize(softmax(dequantize x)) = quantized_softmax x
bool quantizedSoftmaxPattern(Operation &op, Rewriter &rw);

} // namespace tenon
