// Defines how text and what is looked up by text stand in generated C++ (runtime/common/text.h).
#pragma once

#include "codegen/emit/SourceWriter.h"
#include "ir/Attribute.h"

#include "llvm/ADT/ArrayRef.h"

namespace tenon {

/// An element of a list of text: `{"setosa", 6}`; any bytes, in the characters of ASCII.
std::string textElement(llvm::StringRef text);
/// `static const text NAME[] = {…};`
void writeTextArray(SourceWriter &w, llvm::StringRef name, llvm::ArrayRef<std::string> values);
/// Declares the tables of a text_index over `keys` under NAME_keys and NAME_places; returns an
/// expression that makes it. Of equal keys the first one is found.
std::string writeTextIndex(SourceWriter &w, llvm::StringRef name, llvm::ArrayRef<std::string> keys);
/// Declares the tables of a text_automaton for a regular expression that the op's verifier has
/// read; returns an expression that makes it.
std::string writeTextAutomaton(SourceWriter &w, llvm::StringRef name, llvm::StringRef pattern);

} // namespace tenon
