// Defines which names of functions and headers of the user's can stand in generated text.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <string>

namespace tenon {

/// Why `name` is no C++ function's name, `ns::name` included; empty when it is.
std::string whyNoFunctionName(llvm::StringRef name);
/// Why `name` is no header's name between quotes; empty when it is.
std::string whyNoHeaderName(llvm::StringRef name);

} // namespace tenon
