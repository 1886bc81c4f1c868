// dce: removes what nothing depends on.
#pragma once

#include "passes/Pass.h"

namespace tenon {

bool runDce(Graph &graph, PassContext &context);

} // namespace tenon
