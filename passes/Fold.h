// fold: evaluates at compile time what is known then.
#pragma once

#include "passes/Pass.h"

namespace tenon {

bool runFold(Graph &graph, PassContext &context);

} // namespace tenon
