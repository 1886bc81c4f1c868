// Defines what messages say about a file that is not there.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <string>

namespace tenon {

/// "; did you mean '…'?" of the file in the folder of `path` whose name is nearest, where there is
/// none at `path`; else nothing.
std::string nearFile(llvm::StringRef path);

} // namespace tenon
