// isolate: puts every operation that needs a kernel into a group.
#pragma once

#include "passes/Pass.h"

namespace tenon {

bool runIsolate(Graph &graph, PassContext &context);

/// Moves `ops` (of one region, in order, closed under paths) into a new group placed before
/// `where`. Operands become the group's in order of first use; values used elsewhere its results.
Operation *makeGroup(llvm::ArrayRef<Operation *> ops, Operation *where);

} // namespace tenon
