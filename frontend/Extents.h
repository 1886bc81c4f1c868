// Defines the form in which options and exporters write an extent that follows from others:
// `past + 1`, `2*N - 1`.
#pragma once

#include "llvm/ADT/Optional.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <string>

namespace tenon::frontend {

/// An integer times symbolic dimensions.
struct ExtentTerm {
  int64_t factor = 1;
  llvm::SmallVector<std::string, 2> names;
};

/// The terms of a sum of products of integers and names; None where `text` is none, or too long for
/// one that somebody meant. A name alone is one term.
llvm::Optional<llvm::SmallVector<ExtentTerm, 4>> parseExtent(llvm::StringRef text);

/// Whether `text` is more than the name of a dimension.
bool isExtentExpression(llvm::StringRef text);

} // namespace tenon::frontend
