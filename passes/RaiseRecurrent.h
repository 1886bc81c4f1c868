// raise-recurrent: loops that run a recurrent cell become one operation.
#pragma once

#include "passes/Pass.h"

namespace tenon {

bool runRaiseRecurrent(Graph &graph, PassContext &context);

} // namespace tenon
