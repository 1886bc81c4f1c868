// Defines the SHA-256 of a model's file, which generated files name. Weights of hundreds of
// megabytes go through it, so it uses the processor's instructions for it where there are some.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <string>

namespace tenon::frontend {

/// 64 hexadecimal digits.
std::string sha256(llvm::StringRef bytes);

} // namespace tenon::frontend
