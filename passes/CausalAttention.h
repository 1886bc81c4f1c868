// causal-attention: a bias by which queries see no later keys becomes an attribute.
#pragma once

#include "passes/Pass.h"

namespace tenon {

bool runCausalAttention(Graph &graph, PassContext &context);

} // namespace tenon
