// Defines pipelines (text such as `canonicalize,fuse{max-inputs=16},isolate`) and PassManager,
// which runs them and watches over the passes.
#pragma once

#include "passes/Pass.h"

#include <memory>

namespace llvm {
class raw_ostream;
}

namespace tenon {

/// A pass with its options as written.
struct PassCall {
  const PassInfo *pass = nullptr;
  std::vector<std::pair<std::string, std::string>> options;
};
using Pipeline = std::vector<PassCall>;

/// Grammar: pipeline = [call {"," call}]; call = id ["{" name "=" value {"," …} "}"]; a value is an
/// integer, or words for options of words.
/// False after reporting what is wrong.
bool parsePipeline(llvm::StringRef text, Pipeline &pipeline, Diagnostics &diagnostics);
/// Prints back exactly what parsePipeline reads.
std::string toString(const Pipeline &pipeline);

/// The pipelines of -O0 … -O3: imported → optimized, and optimized → groups in final layouts.
llvm::StringRef optimizationPipeline(unsigned level);
/// The first for a target, with what it needs at every level.
std::string optimizationPipeline(const TargetTraits &target, unsigned level);
llvm::StringRef groupingPipeline(unsigned level);
std::string groupingPipeline(const TargetTraits &target, unsigned level);
/// What brings a float graph into the form that `quantize` looks for layers in.
llvm::StringRef preparationPipeline();

struct PassManagerOptions {
  /// Verify after every pass, and compare the printed module with what the pass reported.
  bool verifyEach = false;
  /// Globs over pass ids after which the module is printed to `out`.
  std::vector<std::string> printAfter;
  /// Print after each pass that changed something.
  bool printAfterChange = false;
  llvm::raw_ostream *out = nullptr;
};

/// What one pass of the pipeline did.
struct PassRun {
  std::string id;
  bool changed = false;
  double seconds = 0;
};

/// What is needed to repeat a failure: the module as the failing pass met it, and the rest of the
/// pipeline from that pass on.
struct Reproducer {
  std::unique_ptr<Module> module;
  std::string pipeline;
};

class PassManager {
public:
  PassManager(PassContext &context, PassManagerOptions options = {})
      : context_(context), options_(std::move(options)) {}

  /// Runs `pipeline` on every graph of the module. False when a pass reported an error or broke
  /// an invariant; `reproducer` then holds how to see it again.
  bool run(Module &module, const Pipeline &pipeline);

  const std::vector<PassRun> &runs() const { return runs_; }
  const Reproducer &reproducer() const { return reproducer_; }
  /// Table for --time-passes.
  void printTimes(llvm::raw_ostream &os) const;

private:
  PassContext &context_;
  PassManagerOptions options_;
  std::vector<PassRun> runs_;
  Reproducer reproducer_;
};

} // namespace tenon
