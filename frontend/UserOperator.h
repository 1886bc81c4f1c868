// Defines how a user declares an operator of their own: a .tn file, given by --op. Format:
// docs/user-operators.md.
#pragma once

#include "frontend/Import.h"

namespace tenon {

/// Reads a declaration and adds it to `options.userOperators`. False after reporting what is wrong.
bool readUserOperator(llvm::StringRef path, ImportOptions &options, Diagnostics &diagnostics);

} // namespace tenon
