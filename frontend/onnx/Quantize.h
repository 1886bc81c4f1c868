// Declares what the importers of quantised operators share.
#pragma once

#include "frontend/onnx/Common.h"

namespace tenon::frontend {

/// A tensor of one element in any shape, and as rank 0.
bool isOne(Type t);
Value *asScalar(Builder &b, Value *v);
/// Each of `operands` is there and has one element; reports otherwise.
bool checkOne(Node &n, std::initializer_list<unsigned> operands);

/// (x − zero) · scale for operand `x` with its scale and zero point behind it.
Value *real(Node &n, unsigned x);
/// `y` quantised with the scale in operand `scale` and the zero point behind it, to the element
/// type `otherwise` where that is not there.
Value *quantized(Node &n, Value *y, unsigned scale, Element otherwise);

/// Constant bytes [rows, …] of operand i read as unsigned elements of 2, 4 or 8 `bits`, which stand
/// in ONNX's order already: [rows, columns], columns beyond what is wanted included. None after an
/// error.
llvm::Optional<Tensor> unpacked(Node &n, unsigned i, int64_t bits, int64_t rows);
/// (units − zero) · scale for unsigned units [rows…, blocks, block] and scales and zero points
/// [rows…, blocks]; where `zeros` is null, half of the units' range is the zero point. Null where
/// an operand is.
Value *dequantizedBlocks(Builder &b, Value *units, Value *scales, Value *zeros);

/// A tensor in bytes, with the scale and the zero point of its range and 0.
struct Dynamic {
  Value *bytes = nullptr, *scale = nullptr, *zero = nullptr;
};
/// DynamicQuantizeLinear; null values after an error.
Dynamic quantizedByRange(Builder &b, Value *x);
/// acc · accScale (+ bias): both broadcast to the i32 accumulator, in the type of the scale.
Value *scaledSum(Builder &b, Value *acc, Value *accScale, Value *bias);

/// Zero points of an integer contraction, as far as they are given: scalars where possible.
llvm::SmallVector<Value *, 2> zeroPoints(Node &n, Value *x, Value *xZero, Value *wZero);
/// The product of two scales, operands of the node: rank 0 unless the second has one per channel.
Value *productOfScales(Node &n, unsigned x, unsigned w);
/// round(acc · accScale / yScale) + yZero for an i32 accumulator. `accScale` is rank 0, or follows
/// dimension `axis`.
Value *requantize(Node &n, Value *acc, Value *accScale, Value *yScale, Value *yZero, int64_t axis);

} // namespace tenon::frontend
