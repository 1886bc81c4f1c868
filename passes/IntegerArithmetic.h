// integer-arithmetic: quantised islands compute with integers.
#pragma once

#include "passes/Pass.h"

namespace tenon {

bool runIntegerArithmetic(Graph &graph, PassContext &context);

} // namespace tenon
