// Defines the check that a pipeline keeps what a module computes: every graph is interpreted
// before and after on seeded inputs.
#pragma once

#include "ir/IR.h"
#include "passes/PassManager.h"

#include <string>

namespace tenon {

/// Seeded inputs for a graph; symbols take their upper bounds.
std::vector<Tensor> seededInputs(Graph &graph, unsigned seed);

/// Empty when the pipeline runs, verifies after every pass and keeps the outputs of every graph
/// within `tolerance` of the largest value; else what went wrong.
std::string checkSemantics(Module &module, llvm::StringRef pipeline, double tolerance = 1e-5);

} // namespace tenon
