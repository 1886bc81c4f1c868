// Defines the file of --self-test: one set of inputs, and what the interpreter makes of it.
#pragma once

#include "tools/ToolHost.h"

#include "codegen/core/CompileOptions.h"
#include "compiler/Compiler.h"

namespace tenon {

/// Adds it to the files of a scheduled model. `data` is a test data set whose inputs are taken, or
/// "seeded"; what was read of it joins `read`. False after reporting what cannot be compared.
bool addSelfTest(ToolHost &host, Compiler &compiler, const Target &target,
                 const CompileOptions &options, llvm::StringRef data,
                 std::vector<CompiledFile> &files, std::vector<std::string> &read);

} // namespace tenon
