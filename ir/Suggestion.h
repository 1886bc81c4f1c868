// Defines what messages say about a word that is not known.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <string>

namespace tenon {

/// "; did you mean '…'?" of the candidate with the fewest edits, when `word` may be a slip for it;
/// else nothing.
std::string didYouMean(llvm::StringRef word, llvm::ArrayRef<llvm::StringRef> candidates);

/// "a, b or c".
std::string oneOf(llvm::ArrayRef<llvm::StringRef> words);

} // namespace tenon
