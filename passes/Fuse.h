// fuse: decides what one kernel computes and forms groups.
#pragma once

#include "passes/Pass.h"

namespace tenon {

bool runFuse(Graph &graph, PassContext &context);

} // namespace tenon
