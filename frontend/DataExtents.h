// Declares how numbers that the data decide become extents.
#pragma once

#include "frontend/onnx/Node.h"

namespace tenon::frontend {

/// The list of integers `v`, which decides extents of a result of `n`. What is not known when
/// compiling is traced to the values that it is computed from; those become symbols with bounds,
/// born where they are computed, and whatever else is computed from them is known by these symbols.
/// None after an error.
llvm::Optional<Shape> dataExtents(const Node &n, Value *v);

/// Whether dataExtents knows, or finds bounds of, the list of integers `v`.
bool hasBounds(const Node &n, Value *v);

} // namespace tenon::frontend
