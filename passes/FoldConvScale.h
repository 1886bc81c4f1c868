// fold-conv-scale: per-channel scale and shift around contractions go into weights and bias.
#pragma once

#include "passes/Pass.h"

namespace tenon {

bool runFoldConvScale(Graph &graph, PassContext &context);

} // namespace tenon
