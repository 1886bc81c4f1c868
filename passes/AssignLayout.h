// assign-layout: chooses the physical layout of every value.
#pragma once

#include "passes/Pass.h"

namespace tenon {

bool runAssignLayout(Graph &graph, PassContext &context);

} // namespace tenon
