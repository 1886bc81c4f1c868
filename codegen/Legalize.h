// Defines the last rewrite before scheduling: whatever emission relies on is made explicit.
#pragma once

#include "ir/Diagnostics.h"
#include "ir/IR.h"

namespace tenon {

/// Before → after:
/// - an output that is an input, a constant, another output's value, or a partial view of a buffer
///   → a copy group writes it;
/// - an output in another layout than dense row-major → a converting copy;
/// - operands of if and loop and their yields in other layouts → the same.
/// Reports operations at graph level that are neither groups, views, constants nor control flow.
bool legalizeForEmission(Graph &graph, Diagnostics &diagnostics);

} // namespace tenon
