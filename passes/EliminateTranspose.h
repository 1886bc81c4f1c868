// eliminate-transpose: moves transposes down until they cancel or reach the outputs.
#pragma once

#include "passes/Pass.h"

namespace tenon {

bool runEliminateTranspose(Graph &graph, PassContext &context);

} // namespace tenon
