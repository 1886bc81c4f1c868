// merge-siblings: products of one tensor become one.
#pragma once

#include "passes/Pass.h"

namespace tenon {

bool runMergeSiblings(Graph &graph, PassContext &context);

} // namespace tenon
