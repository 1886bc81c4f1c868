// narrow-weights: products with dequantised constants keep those as integers.
#pragma once

#include "passes/Pass.h"

namespace tenon {

bool runNarrowWeights(Graph &graph, PassContext &context);

} // namespace tenon
