// decompose-conv-transpose: transposed convolutions become ordinary ones, one row phase each.
#pragma once

#include "passes/Pass.h"

namespace tenon {

bool runDecomposeConvTranspose(Graph &graph, PassContext &context);

} // namespace tenon
