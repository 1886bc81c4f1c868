// Declares the look for tables of positions that have fewer rows than a decoder's caches. Internal
// to the frontend.
#pragma once

#include "frontend/GraphImporter.h"

namespace tenon::frontend {

/// Reports a gather that reads a row behind its table's last one in a run that the bounds of
/// `length` (what the caches hold) and `count` (the tokens of a run) allow. ONNX has no such row,
/// whatever the table is: learned positions, or the cosines of turned ones. False after an error.
bool checkPositionTables(ModelImport &state, Graph &graph, Dim length, Dim count);

/// What to add to an error of a node with these operands: that an extent of theirs is cut to fewer
/// rows than a decoder's caches hold, such as a square of masks to the model's positions. Empty
/// where none is.
std::string cutBelowCapacity(const ImportOptions &options,
                             llvm::ArrayRef<TensorOrSequence> operands);

} // namespace tenon::frontend
