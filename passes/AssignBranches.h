// assign-branches: groups that do not depend on each other may run side by side.
#pragma once

#include "passes/Pass.h"

namespace tenon {

bool runAssignBranches(Graph &graph, PassContext &context);

} // namespace tenon
