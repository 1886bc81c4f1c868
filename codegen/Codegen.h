// Defines code generation's interface: from a scheduled module to the text of its files.
#pragma once

#include "codegen/core/CompileOptions.h"
#include "codegen/core/Target.h"
#include "codegen/memory/Plan.h"
#include "codegen/schedule/Schedule.h"

namespace tenon {

/// Schedules every graph of an optimized module for `target` (one variant per level), leaving the
/// module at Stage::Scheduled.
bool scheduleModule(Module &module, const Target &target, const ScheduleOptions &options,
                    Diagnostics &diagnostics);

/// Writes the files of a scheduled module. The same module and options give the same bytes.
bool emitModule(Module &module, const Target &target, const CompileOptions &options,
                std::vector<CompiledFile> &files, CompileSummary &summary,
                Diagnostics &diagnostics);

} // namespace tenon
