// split-products: a product whose columns are read as two halves becomes two products.
#pragma once

#include "passes/Pass.h"

namespace tenon {

bool runSplitProducts(Graph &graph, PassContext &context);

} // namespace tenon
