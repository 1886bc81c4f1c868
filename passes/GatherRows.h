// gather-rows: rows that concats and other movement rearrange are gathered by a table.
#pragma once

#include "passes/Pass.h"

namespace tenon {

bool runGatherRows(Graph &graph, PassContext &context);

} // namespace tenon
