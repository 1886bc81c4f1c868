// Defines the check of a memory plan against the order of its steps, apart from the planner's own
// reasoning.
#pragma once

#include "codegen/memory/Plan.h"
#include "ir/Diagnostics.h"

namespace tenon {

/// Reports as defects
/// - steps that read what another step makes without waiting for it;
/// - bytes of the arena that two buffers or scratches share although a step that touches one may
///   run while, or before, a step that touches the other does;
/// - values written over in place while a step may still read them;
/// - more than an output in the caller's memory for it.
bool verifyPlan(const Plan &plan, Diagnostics &diagnostics);

} // namespace tenon
