// float8-arithmetic: products of quantised tensors in f8e4m3 multiply what is stored.
#pragma once

#include "passes/Pass.h"

namespace tenon {

bool runFloat8Arithmetic(Graph &graph, PassContext &context);

} // namespace tenon
