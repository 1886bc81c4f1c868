// raise-normalize: normalisations that were exported as reductions and maps become one operation.
#pragma once

#include "passes/Pass.h"

namespace tenon {

bool runRaiseNormalize(Graph &graph, PassContext &context);

} // namespace tenon
