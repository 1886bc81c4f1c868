// Defines the writing of CUDA files from scheduled modules.
#pragma once

#include "codegen/core/CompileOptions.h"
#include "codegen/core/Target.h"
#include "ir/IR.h"

namespace tenon {

std::vector<std::string> nvccOptions(const Target &target);
bool emitCuda(Module &module, const Target &target, const CompileOptions &options,
              std::vector<CompiledFile> &files, CompileSummary &summary, Diagnostics &diagnostics);

} // namespace tenon
