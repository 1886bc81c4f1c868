// Defines how the plan of a program's memory is told.
#pragma once

#include "ir/IR.h"

#include "llvm/Support/JSON.h"

namespace tenon {

/// What lies where in the arena, and when, of one variant's graph.
void printMemory(llvm::raw_ostream &os, Graph &graph, llvm::StringRef variant);
/// Attribute `memory` of the enclosing object: the plans of all variants, weights and ports
/// included.
void writeMemory(llvm::json::OStream &json, Module &module);

} // namespace tenon
