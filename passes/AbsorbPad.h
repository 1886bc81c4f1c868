// absorb-pad: explicit pads become the pads of the window operations behind them.
#pragma once

#include "passes/Pass.h"

namespace tenon {

bool runAbsorbPad(Graph &graph, PassContext &context);

} // namespace tenon
