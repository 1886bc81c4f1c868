// quantize: floats go through 8 bits around layers, as a file of ranges says.
#pragma once

#include "passes/Pass.h"
#include "passes/quantize/Insert.h"

namespace tenon {

bool runQuantize(Graph &graph, PassContext &context);

/// What the pass's option `ranges` names: JSON with the ranges of values and the choice of layers.
/// `graph` is what the plan is for.
std::string rangesText(Graph &graph, const QuantizationPlan &plan);
/// The plan that `text` describes; None after an error, which calls the text `file`.
llvm::Optional<QuantizationPlan> readRanges(Graph &graph, llvm::StringRef text,
                                            llvm::StringRef file, Diagnostics &diagnostics);

} // namespace tenon
