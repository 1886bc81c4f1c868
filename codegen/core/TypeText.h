// Defines how types and places in the model are spelled in generated files.
#pragma once

#include "ir/IR.h"

#include <string>

namespace tenon {

/// Element type in memory: "float", "int8_t", "f16" …
llvm::StringRef cppElement(Element e);
/// Text that is safe inside a comment of one line: control characters, quotes and backslashes
/// are escaped.
std::string commentSafe(llvm::StringRef text);

/// "f32[1, 64, 56, 56] nhwc" for comments.
std::string describe(Type t);
/// Quoted node names joined by commas, at most `most` of them.
std::string describe(const Location &loc, size_t most = 6);

} // namespace tenon
