// Defines how commands choose schedules.
#pragma once

#include "driver/Pipeline.h"

namespace tenon {

/// What the command line says of schedules; reads tuning files, and measures here first where it
/// says --search=exhaustive. `data`: inputs by the order of declaration, null where seeded.
bool scheduleChoices(Console &console, Compilation &compilation, const Target &target,
                     const CodeOptions &code, llvm::ArrayRef<Tensor> data, ScheduleOptions &out);
/// Schedules so.
bool scheduleAsAsked(Console &console, Compilation &compilation, const Target &target,
                     const CodeOptions &code, llvm::ArrayRef<Tensor> data = {});

} // namespace tenon
