// Defines what the options of code generation (compiler/Options.h) mean to the libraries.
#pragma once

#include "codegen/Codegen.h"
#include "compiler/Options.h"
#include "passes/Pass.h"

namespace tenon {

/// Parses --target; the interpreter is no target. Options that programs for it do not have are
/// wrong usage, which is reported as an unknown target is.
llvm::Optional<Target> codeTarget(const CodeOptions &options, Diagnostics &diagnostics);
/// Whether schedules can be measured for the target: one level of a family that has some.
bool canTune(const Target &target, Diagnostics &diagnostics);
/// The memories of --pool as a module notes them; None after errors.
llvm::Optional<std::string> poolsOf(const CodeOptions &code, const Target &target,
                                    Diagnostics &diagnostics);
/// Tells the passes what --precision says; reports what is not understood.
bool precisionRules(const CodeOptions &code, PassContext &passes, Diagnostics &diagnostics);
/// Reports precisions that a target does not have.
bool checkPrecision(llvm::ArrayRef<PrecisionRule> rules, const Target &target,
                    Diagnostics &diagnostics);
/// The schedule options of a command line but for measurements (compiler/ScheduleSelection.h).
bool scheduleOptions(const CodeOptions &code, PassContext &passes, ScheduleOptions &out,
                     Diagnostics &diagnostics);
/// What is emitted under this stem, which names files and, as an identifier, C functions.
CompileOptions compileOptions(const CodeOptions &code, llvm::StringRef stem);
/// Warns of weights that are more than the flash of the target's chip.
void checkFlash(const Target &target, int64_t weightBytes, Diagnostics &diagnostics);
/// The options that shaped the module and the code, for the head of generated files.
std::string optionsNoted(const Module &module, const CompileOptions &options);
/// Nodes of the ONNX model that a module was imported from; 0: unknown.
int nodesRead(const Module &module);
/// A text as a C identifier: `super-resolution.v2` → `super_resolution_v2`.
std::string identifier(llvm::StringRef text);

} // namespace tenon
