// canonicalize: brings the graph into its simplest form, without looking at costs.
#pragma once

#include "passes/Pass.h"

namespace tenon {

bool runCanonicalize(Graph &graph, PassContext &context);

} // namespace tenon
