// Defines reading and writing of NumPy's .npy files.
//
// bfloat16, 8-bit and 4-bit floats, which NumPy cannot name, are written as unsigned integers of
// their width; sub-byte types with one element to a byte. Reading knows the plain NumPy types only.
#pragma once

#include "ir/Diagnostics.h"
#include "ir/Tensor.h"

#include "llvm/ADT/Optional.h"

namespace tenon {

llvm::Optional<Tensor> readNpy(llvm::StringRef path, Diagnostics &diagnostics);
/// What a .npy file with these bytes holds; messages call it `path`.
llvm::Optional<Tensor> parseNpy(llvm::StringRef bytes, llvm::StringRef path,
                                Diagnostics &diagnostics);
/// The bytes of a .npy file, format version 1.0.
std::string npyBytes(const Tensor &tensor);

} // namespace tenon
