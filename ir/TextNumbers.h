// Declares how numbers are written as text and read from it: ONNX's Cast from and to strings.
//
// Written: integers with all their digits, floats with up to 8 significant digits as C's %.8g (what
// onnxruntime gives), infinities as INF and -INF, and NaN. Read: digits with an optional sign,
// fraction and exponent, or inf and nan in any case, between any white space. What no number of the
// type can say is infinity, or 0; fractions of integers are cut off.
#pragma once

#include "ir/Tensor.h"

#include "llvm/ADT/StringRef.h"

namespace tenon {

/// The number that `text` says as element `i` of `to`, f32, f64, i64 or u64; false where it is
/// none, or an integer that does not fit.
bool readNumber(llvm::StringRef text, Tensor &to, int64_t i);
/// Element `i` of `from`, of one of the same types.
std::string writtenNumber(const Tensor &from, int64_t i);

} // namespace tenon
