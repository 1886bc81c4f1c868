// Defines how constants are stored: packed into their types' layouts, with a hash over all of them
// that generated code knows.
#pragma once

#include "ir/Tensor.h"
#include "ir/Type.h"

namespace tenon {

/// Bytes of a constant as stored.
size_t packedBytes(const Tensor &tensor, Type type);
/// Stores a constant: packedBytes of zeros at `out` that become its elements, padding staying zero.
void packConstant(const Tensor &tensor, Type type, char *out);

/// FNV-1a over words of eight bytes, little-endian, the last filled up with zeros, each step folded
/// once; the runtime's hash_bytes.
uint64_t hashBytes(llvm::StringRef bytes);

} // namespace tenon
