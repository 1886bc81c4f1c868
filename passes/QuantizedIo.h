// quantized-io: quantisation at the model's borders is left to its caller.
#pragma once

#include "passes/Pass.h"

namespace tenon {

class Module;

bool runQuantizedIo(Graph &graph, PassContext &context);

/// How an input or output that quantized-io changed relates to the model's floats:
/// float = (integer − zero) · scale, and a softmax over rows of that where `softmax` is not 0.
struct PortQuantization {
  double scale = 1;
  int64_t zero = 0;
  int64_t softmax = 0; // elements of a row
};
/// None for ports that hold what the model says.
llvm::Optional<PortQuantization> portQuantization(const Module &module, llvm::StringRef port);

} // namespace tenon
