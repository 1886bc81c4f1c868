// Defines the execution behind `tenon run` and `tenon debug`: a model on the interpreter or as a
// built program, compared with files and with the interpreter.
#pragma once

#include "driver/Check.h"

namespace tenon {

struct RunOptions {
  ConsoleOptions console;
  ModelOptions model;
  PassOptions passes;
  CodeOptions code;
  DataOptions data;
};

/// What a run works on, once the model is loaded.
struct Runner {
  Runner(const RunOptions &options, Console &console)
      : options(options), console(console), compilation(console, options.model, options.passes) {}

  const RunOptions &options;
  Console &console;
  Compilation compilation;
  DataSet data;
  RunReport report;
  /// Outputs of the run on the data (or on the first seed).
  std::vector<Tensor> outputs;
  Status status = Done;

  Diagnostics &diagnostics() { return compilation.diagnostics(); }
  bool fail(Status s) { return status = s, false; }

  /// Reads model and data.
  bool load();
  /// Everything: results stand in `report` and `outputs`.
  bool run();

  /// 0 for the data set (or no data at all: seed 1), then the seeds of --check=groups.
  std::vector<uint64_t> seeds() const;
  std::string setName(uint64_t seed) const;
  bool inputsFor(Graph &graph, uint64_t seed, std::vector<Tensor> &inputs);
  /// Compares outputs with the data's files, or else with `expected` where it is not null.
  void checkOutputs(Graph &graph, llvm::ArrayRef<Tensor> actual, const OracleRun *expected,
                    uint64_t seed);
  /// Keeps the worst check of each group value.
  void addGroupCheck(TensorCheck check);

private:
  Tensor expectedOutput(Graph &graph, size_t i) const;
  TensorCheck checkData(Graph &graph, size_t i, const Tensor &actual) const;
  bool runOnInterpreter();
  bool runCompiled(const Target &target);
  bool saveEveryTensor(const OracleRun &run, llvm::ArrayRef<Tensor> inputs);
  std::map<std::string, size_t> groupIndex_;
};

/// Loads another model for the same data and options; null after errors, which are reported.
std::unique_ptr<Compilation> loadReference(const Runner &runner, llvm::StringRef path);

/// Writes tensors as .npy files with names.json, which maps tensor names to file names.
bool saveTensors(llvm::StringRef folder, llvm::ArrayRef<std::pair<std::string, Tensor>> tensors,
                 llvm::StringRef stem, Diagnostics &diagnostics);

} // namespace tenon
