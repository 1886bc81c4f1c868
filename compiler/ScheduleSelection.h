// Defines what options say of schedules: which are tried, and which are measured already.
#pragma once

#include "compiler/Compiler.h"

namespace tenon {

/// What `code` says of schedules. Reads tuning files; notes the memories of --pool in the module.
/// --search=exhaustive is up to tools, which measure.
bool scheduleSelection(Compiler &compiler, const Target &target, const CodeOptions &code,
                       ScheduleOptions &out);

} // namespace tenon
