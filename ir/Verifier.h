// Defines the verifier: structure, dominance, types (by re-running inference), regions, schedules.
#pragma once

#include "ir/Diagnostics.h"
#include "ir/IR.h"

namespace tenon {

/// Reports every violation; true when there is none.
bool verify(Module &module, Diagnostics &diagnostics);
bool verify(Graph &graph, Diagnostics &diagnostics);

} // namespace tenon
