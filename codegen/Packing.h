// Defines how constants are stored: packed into their types' layouts, with a hash over all of them
// that generated code knows.
#pragma once

#include "ir/IR.h"
#include "ir/Tensor.h"

namespace tenon {

/// Bytes of a constant as stored.
size_t packedBytes(const Tensor &tensor, Type type);
/// Stores a constant: packedBytes of zeros at `out` that become its elements, padding staying zero.
void packConstant(const Tensor &tensor, Type type, char *out);

/// The type of a constant as stored: the value's, of 4 x 4 taps where filters are transformed.
Type storedType(const Operation &constant);
/// The elements that are stored: the value, or G g G^T of each filter g for `stored = winograd`
/// (runtime/cuda/winograd.cuh), computed in double and rounded once.
Tensor storedElements(const Operation &constant);

/// FNV-1a over words of eight bytes, little-endian, the last filled up with zeros, each step folded
/// once; the runtime's hash_bytes.
uint64_t hashBytes(llvm::StringRef bytes);

} // namespace tenon
