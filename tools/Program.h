// Defines the built program of a compiled model: generated code and runtime/harness/ made into an
// executable by the system's compiler, run as a child process (tenon is static and loads no code),
// or into an image that an emulator runs.
#pragma once

#include "codegen/memory/Plan.h"
#include "compiler/Compiler.h"
#include "tools/Files.h"
#include "tools/MemoryImage.h"
#include "tools/ToolHost.h"

namespace tenon {

/// Bytes to put into a value's memory before a step, or to take out of it after one.
struct Transfer {
  int step = 0;
  bool read = false; // after the step; else written before it
  Placement place;
  MemoryImage form;
  /// Written: the bytes to write. Read: the bytes that were found.
  std::vector<uint8_t> bytes;
  /// How often the step ran.
  int64_t done = 0;
};

struct ProgramRun {
  std::vector<Tensor> inputs; // of the graph, states included
  std::vector<Transfer> transfers;
  int64_t runs = 0, warmup = 0, budgetMilliseconds = 0;
  unsigned profileSteps = 0; // 0: no profile
  /// Contexts to measure side by side, as the program was built for; 1: none.
  unsigned contexts = 1;

  // Results.
  std::vector<Tensor> outputs; // of the graph; null for states, which transfers read
  double createNanoseconds = 0, firstNanoseconds = 0;
  std::vector<double> nanoseconds;
  std::vector<double> stepNanoseconds; // mean of each step
  /// On emulated boards in the place of times: executed in one run, and in each step.
  double instructions = 0;
  std::vector<double> stepInstructions;
  /// Time of a run where one context and where all work, back to back; 0 where not measured.
  double oneContextNanoseconds = 0, allContextsNanoseconds = 0;
};

/// What a program is told of a run: the manifest, and the data of inputs and transfers
/// (tools/ProgramRun.cpp). False after an error.
bool describeRun(Compiler &compiler, const ProgramRun &run, unsigned threads, std::string &manifest,
                 std::string &data);
/// What it answered. False after an error.
bool readResults(Compiler &compiler, llvm::StringRef bytes, ProgramRun &run);

/// The compiler of generated code that runs on this machine, and its options.
struct BuildCommand {
  std::string compiler;
  std::vector<std::string> words;
};
/// None after reporting that there is none.
llvm::Optional<BuildCommand> buildCommand(const Target &target, const CodeOptions &code,
                                          const ModelOptions &model, Diagnostics &diagnostics);

class Program {
public:
  Program(ToolHost &host, Compiler &compiler, const Target &target)
      : host_(host), compiler_(compiler), target_(target) {}

  /// What is looked at while the program runs: transfers of steps' memory, or their times.
  enum class Watch { Nothing, Transfers, Profile };
  /// Emits the scheduled module and builds it. `contexts`: whether runs may measure several.
  bool build(const CodeOptions &code, Watch watch, bool contexts = false);
  /// Under the command in TENON_RUN_WITH, where set: a sanitizer, a debugger.
  bool run(ProgramRun &run);

  const CompileSummary &summary() const { return summary_; }
  double buildSeconds() const { return buildSeconds_; }
  TemporaryFolder &folder() { return folder_; }

private:
  Diagnostics &diagnostics() { return compiler_.diagnostics(); }
  bool writeFiles(const std::vector<CompiledFile> &files);
  bool buildProgram(const CodeOptions &code, Watch watch, bool contexts);
  bool buildImage(const CodeOptions &code, Watch watch);
  bool execute(llvm::StringRef program, llvm::ArrayRef<std::string> arguments,
               llvm::StringRef what);

  ToolHost &host_;
  Compiler &compiler_;
  Target target_;
  TemporaryFolder folder_;
  CompileSummary summary_;
  double buildSeconds_ = 0;
  unsigned threads_ = 1, runNumber_ = 0;
};

} // namespace tenon
