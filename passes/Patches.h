// patches: the first windows of a network are computed strip by strip.
#pragma once

#include "passes/Pass.h"

namespace tenon {

bool runPatches(Graph &graph, PassContext &context);

/// What strips come to, known without making them.
struct PatchEstimate {
  /// Multiply-adds of the windows, in strips and whole.
  int64_t macs = 0, wholeMacs = 0;
  /// At least so many bytes are live together: a strip, and the result that strips are put into.
  int64_t bytes = 0;
};

/// Windows (convolutions and pools) that follow one another from an input on and could be computed
/// in strips; 0 where there are none.
int64_t patchableWindows(Graph &graph);
/// None where the first `windows` windows cannot be computed in `count` strips.
llvm::Optional<PatchEstimate> estimatePatches(Graph &graph, int64_t windows, int64_t count);

} // namespace tenon
