// Defines the simplification of scalar bodies, used by canonicalize and after fusion merged maps.
#pragma once

#include "passes/Pass.h"

namespace tenon {

/// Rewrites the body of a map or reduce in place with the patterns `canonicalize.scalar-*`.
bool simplifyBody(Operation &op, PassContext &context);

} // namespace tenon
