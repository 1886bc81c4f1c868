// raise-attention: attention that was exported as products, maps and a softmax becomes one
// operation.
#pragma once

#include "passes/Pass.h"

namespace tenon {

bool runRaiseAttention(Graph &graph, PassContext &context);

} // namespace tenon
