// Defines how commands choose schedules.
#pragma once

#include "compiler/Compiler.h"
#include "tools/ToolHost.h"

namespace tenon {

/// What the command line says of schedules; reads tuning files, and measures here first where it
/// says --search=exhaustive. `data`: inputs by the order of declaration, null where seeded.
bool scheduleChoices(ToolHost &host, Compiler &compiler, const Target &target,
                     const CodeOptions &code, llvm::ArrayRef<Tensor> data, ScheduleOptions &out);
/// Schedules so.
bool scheduleAsAsked(ToolHost &host, Compiler &compiler, const Target &target,
                     const CodeOptions &code, llvm::ArrayRef<Tensor> data = {});

} // namespace tenon
