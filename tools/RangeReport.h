// Defines how the search for overflows of fp16 is told.
#pragma once

#include "passes/Overflow.h"

#include "llvm/Support/JSON.h"

namespace tenon {

/// One line for the summary of `compile`.
std::string overflowLine(const OverflowReport &report);
/// Every result that is not proven safe, with reason and remedy.
void printOverflows(llvm::raw_ostream &os, const OverflowReport &report);
/// Attribute `overflow` of the enclosing object.
void writeOverflows(llvm::json::OStream &json, const OverflowReport &report);

} // namespace tenon
