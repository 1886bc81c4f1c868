// Defines the writing of C++ files (cpu and mcu targets).
#pragma once

#include "codegen/Compile.h"

namespace tenon {

bool emitCpp(Module &module, const Target &target, const CompileOptions &options,
             std::vector<CompiledFile> &files, CompileSummary &summary, Diagnostics &diagnostics);

} // namespace tenon
