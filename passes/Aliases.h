// Defines what ids of passes of earlier versions are called now.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <string>

namespace tenon {

/// What an id, or a glob of ids, of an earlier version is called now; others as they are.
std::string currentId(llvm::StringRef id);

} // namespace tenon
