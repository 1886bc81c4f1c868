// Defines how a user declares an operator of their own: a .tn file, given by --op. Format:
// docs/user-operators.md.
#pragma once

#include "frontend/Import.h"

#include "llvm/Support/MemoryBuffer.h"

namespace tenon {

/// Reads a declaration and adds it to `options.userOperators`. False after reporting what is wrong.
bool readUserOperator(llvm::StringRef path, ImportOptions &options, Diagnostics &diagnostics);
/// The same of a declaration in memory, with the bytes of its side file; `name` is for messages.
bool readUserOperator(const llvm::MemoryBuffer &text, llvm::StringRef data, llvm::StringRef name,
                      ImportOptions &options, Diagnostics &diagnostics);

} // namespace tenon
