// Declares the look for tables of positions that have fewer rows than a decoder's caches. Internal
// to the frontend.
#pragma once

#include "frontend/GraphImporter.h"

namespace tenon::frontend {

/// Reports a gather that reads a row behind its table's last one in a run that the bounds of
/// `length` (what the caches hold) and `count` (the tokens of a run) allow. ONNX has no such row,
/// whatever the table is: learned positions, or the cosines of turned ones. False after an error.
bool checkPositionTables(ModelImport &state, Graph &graph, Dim length, Dim count);

/// The end of a message where caches hold more tokens than the `most` that the model is for.
std::string expectedAtMost(int64_t most);

} // namespace tenon::frontend
