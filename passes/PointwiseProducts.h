// pointwise-products: convolutions of single pixels that stand alone become matrix products.
#pragma once

#include "passes/Pass.h"

namespace tenon {

bool runPointwiseProducts(Graph &graph, PassContext &context);

} // namespace tenon
