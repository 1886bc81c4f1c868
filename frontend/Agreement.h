// Declares what would make the extents of a node's operands agree. Internal to the frontend.
#pragma once

#include "frontend/GraphImporter.h"

namespace tenon::frontend {

/// What to add to an error of a node with these operands: an extent is cut to fewer rows than a
/// decoder's caches hold, two names of the model's inputs are one extent, or one of them is smaller
/// than --range says. Empty where nothing of that explains an extent.
std::string agreement(const ModelImport &state, llvm::ArrayRef<TensorOrSequence> operands);

} // namespace tenon::frontend
