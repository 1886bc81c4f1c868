// Defines whether generated code can run on this machine, asked before anything is built.
#pragma once

#include "codegen/core/Target.h"

namespace tenon {

/// Whether the first GPU here runs code for `target`; targets of other families always can. A
/// program that TENON_RUN_WITH or a stand-in for nvcc takes elsewhere counts as one that can run.
/// False after reporting what was asked for, what is here and what to do.
bool canRunHere(const Target &target, Diagnostics &diagnostics);

} // namespace tenon
