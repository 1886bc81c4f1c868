// assign-precision: tensors of f32 are stored in fewer bits, or their contractions marked tf32,
// where
// --precision asks for it.
#pragma once

#include "passes/Pass.h"

namespace tenon {

/// Reads "fp16" or "fp16,/head/*=fp32"; reports what is not understood.
bool parsePrecision(llvm::StringRef text, std::vector<PrecisionRule> &rules,
                    Diagnostics &diagnostics);

/// The element type that tensors of `e` which an operation of these source nodes makes are stored
/// in once the pass has run.
Element storedElement(Element e, const Location &nodes, const PassContext &context);

bool runAssignPrecision(Graph &graph, PassContext &context);

} // namespace tenon
