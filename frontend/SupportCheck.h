// Defines the check that a model has only operators that Tenon imports: all others are named at
// once.
#pragma once

#include "frontend/GraphImporter.h"

namespace tenon::frontend {

/// Reports every operator without a row, a function or a declaration of the user's, in the graph,
/// its subgraphs and the functions that they call, with the nodes that it is used in. False then.
bool checkSupport(ModelImport &state);

} // namespace tenon::frontend
