// Declares what the importers of quantised operators share.
#pragma once

#include "frontend/onnx/Common.h"

namespace tenon::frontend {

/// A tensor of one element in any shape, and as rank 0.
bool isOne(Type t);
Value *asScalar(Builder &b, Value *v);
/// Each of `operands` is there and has one element; reports otherwise.
bool checkOne(Node &n, std::initializer_list<unsigned> operands);

/// Zero points of an integer contraction, as far as they are given: scalars where possible.
llvm::SmallVector<Value *, 2> zeroPoints(Node &n, Value *x, Value *xZero, Value *wZero);
/// The product of two scales, operands of the node: rank 0 unless the second has one per channel.
Value *productOfScales(Node &n, unsigned x, unsigned w);
/// round(acc · accScale / yScale) + yZero for an i32 accumulator. `accScale` is rank 0, or follows
/// dimension `axis`.
Value *requantize(Node &n, Value *acc, Value *accScale, Value *yScale, Value *yZero, int64_t axis);

} // namespace tenon::frontend
