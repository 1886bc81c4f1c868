// Defines the writing of C++ files (cpu and mcu targets).
#pragma once

#include "codegen/core/CompileOptions.h"
#include "codegen/core/Target.h"
#include "ir/IR.h"

namespace tenon {

bool emitCpp(Module &module, const Target &target, const CompileOptions &options,
             std::vector<CompiledFile> &files, CompileSummary &summary, Diagnostics &diagnostics);

} // namespace tenon
