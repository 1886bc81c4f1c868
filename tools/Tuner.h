// Defines Tuner: it measures candidate schedules of a model on the machine of its target, or writes
// the program that does so elsewhere.
#pragma once

#include "codegen/emit/TunerWriter.h"
#include "compiler/Compiler.h"
#include "tools/Files.h"
#include "tools/ToolHost.h"
#include "tools/TuningReport.h"

namespace tenon {

struct TunerSettings {
  unsigned candidates = 8; // of each form
  unsigned jobs = 0;       // compilers at a time; 0: as many as the machine has processors
  double seconds = 10;
  int64_t tokens = 0; // of a decoder's run, whose graph is measured; 0: there is one graph
};

class Tuner {
public:
  /// `options` without measurements; `data`: inputs by the graph's order, null where seeded.
  Tuner(ToolHost &host, Compiler &compiler, const Target &target, const CodeOptions &code,
        const ScheduleOptions &options, const TunerSettings &settings);

  /// Builds and measures here. The module is left as grouped for the target, with the graph that
  /// was measured.
  bool measure(llvm::ArrayRef<Tensor> data, Tuning &tuning, TuningReport &report);
  /// Writes the program `path`, and files of weights beside it where they are large; `output` is
  /// where that writes when it is not told.
  bool writeProgram(llvm::StringRef path, llvm::StringRef output);

private:
  /// What was met of a form while collecting: its candidates, best estimate first.
  struct Collected {
    std::string level, nodes;
    std::vector<TunerProgram::Entry> candidates;
    bool otherwise = false; // met where chains are not as the cost model has them
  };
  /// Whether a chain is taken.
  using TakeChain = std::function<bool(const ChainOffer &)>;
  bool check();
  bool begin();
  void takeGraph();
  /// Adds the forms that are met with these chains, and their candidates.
  bool collect(bool otherwise, const TakeChain &takeChain);
  /// Schedules a copy of the grouped module with `pick`, which gives the candidate of a form, and
  /// emits it as a round.
  bool addRound(const std::string &name, CompileOptions::Runtime runtime, TunerProgram &program,
                const TakeChain &takeChain, llvm::function_ref<int(const std::string &key)> pick);
  bool addRounds(CompileOptions::Runtime runtime, TunerProgram &program);
  void layOut(TunerProgram &program);
  bool build(const TunerProgram &program, size_t built, std::vector<bool> &good);
  bool run(const TunerProgram &program, const std::string &name, llvm::ArrayRef<Tensor> data,
           TuningReport &report);
  Diagnostics &diagnostics() { return compiler_.diagnostics(); }

  ToolHost &host_;
  Compiler &compiler_;
  const Target &target_;
  const CodeOptions &code_;
  ScheduleOptions options_;
  TunerSettings settings_;
  TemporaryFolder folder_;
  std::unique_ptr<Module> grouped_;
  SymbolValues extents_;                   // of the runs that are measured, where settings say them
  std::map<std::string, Collected> forms_; // by key
  std::vector<ChainOffer> chains_;
};

/// Reports with words for the graph that each is of; none where a module has but one.
using TuningReports = std::vector<std::pair<std::string, TuningReport>>;

/// Measures a decoder's graphs one after another, in the time that is given for all, or the only
/// one of another module. The module is left as grouped for the target.
bool tuneRuns(ToolHost &host, Compiler &compiler, const Target &target, const CodeOptions &code,
              const ScheduleOptions &options, const TunerSettings &settings,
              llvm::ArrayRef<Tensor> data, Tuning &tuning, TuningReports &reports);

} // namespace tenon
