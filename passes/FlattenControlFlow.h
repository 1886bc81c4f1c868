// flatten-control-flow: loops and branches become plain operations, for targets that have neither.
#pragma once

#include "passes/Pass.h"

namespace tenon {

bool runFlattenControlFlow(Graph &graph, PassContext &context);

} // namespace tenon
