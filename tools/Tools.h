// Defines the programs of others that commands run: compilers, the disassembler, nvidia-smi; where
// they are and how they are called.
#pragma once

#include "ir/Diagnostics.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/Optional.h"

#include <string>
#include <vector>

namespace tenon {

/// What the environment (CXX, NVCC, CUOBJDUMP) names, else what PATH or the usual places have;
/// empty when that is no program.
std::string findCxx();
std::string findNvcc();
std::string findCuobjdump();
/// Why a program is missing: that `variable` names none, else `otherwise`.
std::string whyMissing(llvm::StringRef variable, llvm::StringRef otherwise);
/// What to do where it is missing.
extern const char *const kCuobjdumpRemedy;

/// One call of a program.
struct ToolCall {
  std::string program;
  std::vector<std::string> arguments;
  /// Where what it says goes; errors show the first lines.
  std::string log;
  /// Where its standard output goes instead, unless empty.
  std::string output;
};

/// Runs it; a failure is reported as "`what` failed", with the command.
bool runTool(const ToolCall &call, llvm::StringRef what, Diagnostics &diagnostics);
/// Runs all of them, at most `jobs` at a time; each failure is reported so. Answers which
/// succeeded.
std::vector<bool> runTools(llvm::ArrayRef<ToolCall> calls, unsigned jobs, llvm::StringRef what,
                           Diagnostics &diagnostics);

} // namespace tenon
