// Defines the execution behind `tenon run` and `tenon debug`: a model on the interpreter or as a
// built program, compared with files and with the interpreter.
#pragma once

#include "tools/Check.h"
#include "tools/DataOptions.h"
#include "tools/ToolHost.h"

namespace tenon {

struct RunOptions {
  ModelOptions model;
  PipelineOptions passes;
  CodeOptions code;
  DataOptions data;
};

/// What outputs are held against where the data set has none.
struct OutputCheck {
  Graph &graph;
  uint64_t seed;
  std::string with; // of `expected`, in words
  OracleRun &expected;
  /// Whether `expected` is the interpreter's in the model's types, so that fp64 is the judge.
  bool interpreted = false;
  /// The name of what was run, where the seed's does not say all.
  std::string set = {};
  /// Fills in what the network gives in its own types and in fp64, where its own rounding counts.
  std::function<void(OracleRun &)> measure = {};
};

/// What a run works on, once the model is loaded.
struct Runner {
  Runner(const RunOptions &options, ToolHost &host)
      : options(options), host(host), compiler(host, options.model, options.passes) {}

  const RunOptions &options;
  ToolHost &host;
  Compiler compiler;
  DataSet data;
  RunReport report;
  /// Outputs of the run on the data (or on the first seed).
  std::vector<Tensor> outputs;
  Status status = Done;
  /// What the code is for; None for the interpreter.
  llvm::Optional<Target> target;

  Diagnostics &diagnostics() { return compiler.diagnostics(); }
  bool fail(Status s) { return status = s, false; }

  /// Finds the target and asks whether it is here, before anything else takes time.
  bool aim();
  /// Reads model and data.
  bool load();
  /// Everything: results stand in `report` and `outputs`.
  bool run();

  /// 0 for the data set (or no data at all: seed 1), then the seeds of --check=groups.
  std::vector<uint64_t> seeds() const;
  std::string setName(uint64_t seed) const;
  /// `tokens`: of a decoder's run, where its module has entries; 0: as the data has it.
  bool inputsFor(Graph &graph, uint64_t seed, std::vector<Tensor> &inputs, int64_t tokens = 0);
  /// Compares outputs with the data's files, or else with what is expected where that has any.
  void checkOutputs(const OutputCheck &check, llvm::ArrayRef<Tensor> actual);
  /// Counts a check, and keeps the worst check of each group value.
  void addGroupCheck(TensorCheck check);

private:
  Tensor expectedOutput(Graph &graph, size_t i) const;
  TensorCheck checkOutput(const OutputCheck &check, OracleRun &own, size_t i,
                          const Tensor &actual) const;
  bool runOnInterpreter();
  bool checkGroups(const CommonNames &common, Compiler &other, llvm::ArrayRef<Tensor> inputs,
                   OracleRun &mine, uint64_t seed, OracleRun &theirs);
  bool runCompiled();
  bool saveEveryTensor(const OracleRun &run, llvm::ArrayRef<Tensor> inputs);
  std::map<std::string, size_t> groupIndex_;
};

/// Loads another model for the same data and options; null after errors, which are reported.
std::unique_ptr<Compiler> loadReference(const Runner &runner, llvm::StringRef path);

/// Writes tensors as .npy files with names.json, which maps tensor names to file names.
bool saveTensors(llvm::StringRef folder, llvm::ArrayRef<std::pair<std::string, Tensor>> tensors,
                 llvm::StringRef stem, Diagnostics &diagnostics);

} // namespace tenon
