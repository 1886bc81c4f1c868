// Defines what the options of code generation (compiler/Options.h) mean to the libraries.
#pragma once

#include "codegen/Codegen.h"
#include "compiler/Options.h"
#include "passes/Pass.h"

namespace tenon {

/// Parses --target; the interpreter is no target.
llvm::Optional<Target> codeTarget(const CodeOptions &options, Diagnostics &diagnostics);
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
/// Reports a target whose programs cannot call --hooks.
bool checkHooks(const CodeOptions &code, const Target &target, Diagnostics &diagnostics);
/// Refuses threads where the target's programs have one.
bool checkThreads(const CodeOptions &code, const Target &target, Diagnostics &diagnostics);
/// The options that shaped the module and the code, for the head of generated files.
std::string optionsNoted(const Module &module, const CompileOptions &options);
/// Nodes of the ONNX model that a module was imported from; 0: unknown.
int nodesRead(const Module &module);
/// A text as a C identifier: `super-resolution.v2` → `super_resolution_v2`.
std::string identifier(llvm::StringRef text);

} // namespace tenon
