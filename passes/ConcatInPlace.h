// concat-in-place: producers write straight into the concat's buffer.
#pragma once

#include "passes/Pass.h"

namespace tenon {

bool runConcatInPlace(Graph &graph, PassContext &context);

} // namespace tenon
