// flatten-control-flow: loops and branches become plain operations, for targets that have neither.
#pragma once

#include "passes/Pass.h"

namespace tenon {

/// Whether the condition of a loop holds before and after every trip.
bool alwaysGoes(const Operation &loop);

bool runFlattenControlFlow(Graph &graph, PassContext &context);

} // namespace tenon
