// Defines the writing of CUDA files from scheduled modules.
#pragma once

#include "codegen/Compile.h"

namespace tenon {

/// nvcc's options for the files of a target: language, arithmetic, machine code for each level.
std::vector<std::string> nvccOptions(const Target &target);

bool emitCuda(Module &module, const Target &target, const CompileOptions &options,
              std::vector<CompiledFile> &files, CompileSummary &summary, Diagnostics &diagnostics);

} // namespace tenon
