// Defines the last rewrite before scheduling: whatever emission relies on is made explicit.
#pragma once

#include "ir/Diagnostics.h"
#include "ir/IR.h"

namespace tenon {

/// Before → after:
/// - an output that is an input, a constant, another output's value, or a partial view of a buffer
///   → a copy group writes it;
/// - an output in another layout than dense row-major → a converting copy;
/// - an operand of a concat that is not written into the concat's buffer → a copy group does it;
/// - a cache that grows from run to run → its concat has room for all of it, in the state's memory;
/// - operands of if and loop and their yields in other layouts → the same.
/// Reports operations at graph level that are neither groups, views, constants nor control flow.
bool legalizeForEmission(Graph &graph, Diagnostics &diagnostics);

} // namespace tenon
