// cse: computes equal things once.
#pragma once

#include "passes/Pass.h"

namespace tenon {

bool runCse(Graph &graph, PassContext &context);

} // namespace tenon
