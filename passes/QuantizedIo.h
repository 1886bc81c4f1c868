// quantized-io: quantisation at the model's borders is left to its caller.
#pragma once

#include "passes/Pass.h"

namespace tenon {

class Module;

bool runQuantizedIo(Graph &graph, PassContext &context);

/// How an input or output that quantized-io changed relates to the model's floats:
/// float = (integer − zero) · scale.
struct PortQuantization {
  double scale = 1;
  int64_t zero = 0;
};
/// None for ports that hold what the model says.
llvm::Optional<PortQuantization> portQuantization(const Module &module, llvm::StringRef port);

} // namespace tenon
