// Defines how --state ties outputs to inputs of the next run.
#pragma once

#include "frontend/GraphImporter.h"

namespace tenon::frontend {

/// Adds the states that the options ask for to an imported graph; false after reporting one that
/// cannot be.
bool resolveStates(ModelImport &state, Graph &graph);

} // namespace tenon::frontend
