// Defines merge-reductions: reductions of the same tensors become one that reads these once.
#pragma once

#include "passes/Pass.h"

namespace tenon {

bool runMergeReductions(Graph &graph, PassContext &context);

} // namespace tenon
