// Defines Compiler: one model on its way load → passes → schedule → emit. Each step goes on from
// the stage that the module is in; what goes wrong stands in its diagnostics.
#pragma once

#include "codegen/Codegen.h"
#include "compiler/Host.h"
#include "compiler/Options.h"
#include "frontend/Import.h"
#include "passes/PassManager.h"

#include "llvm/Support/Chrono.h"

#include <memory>

namespace tenon {

/// A file of external data as it was once the model was imported.
struct ExternalFile {
  std::string path;
  uint64_t size = 0;
  llvm::sys::TimePoint<> modified;

  explicit ExternalFile(std::string name);
  /// Nothing has written it since.
  bool isUnchanged() const;
};

class Compiler {
public:
  Compiler(CompilerHost &host, const ModelOptions &model, const PipelineOptions &passes);

  /// Reads the file and what the options say of it. Nothing is imported yet, so that data can bind
  /// extents first.
  bool open();
  /// The inputs that the model lets the caller supply (also those that an option made constants),
  /// and the outputs.
  const std::vector<DeclaredTensor> &inputs() const { return inputs_; }
  const std::vector<DeclaredTensor> &outputs() const { return outputs_; }
  /// Says how many elements sequences and optionals have: those are inputs and outputs from then
  /// on.
  void unfold(const std::map<std::string, int64_t> &inputCounts,
              const std::map<std::string, int64_t> &outputCounts);
  /// Makes the module. `data` holds one tensor per input, null where none is known: their shapes
  /// bind symbolic extents.
  bool load(llvm::ArrayRef<Tensor> data = {});

  /// Tells what follows which target it works for; before optimize().
  void aim(const Target &target);
  /// Whether inputs and outputs become integers where the model quantises them: as --io says, else
  /// for microcontrollers.
  bool hasQuantizedIo() const;

  /// imported → optimized.
  bool optimize();
  /// optimized → groups in final layouts → scheduled.
  bool schedule(const Target &target, const ScheduleOptions &options);
  /// The two halves of that: what the target asks of passes, and the choice of kernels.
  bool groupFor(const Target &target);
  bool choose(const Target &target, const ScheduleOptions &options);
  /// optimized → groups, for the interpreter: as schedule() without choosing kernels.
  bool group();
  bool emit(const Target &target, const CompileOptions &options, std::vector<CompiledFile> &files,
            CompileSummary &summary);
  /// Runs any pipeline; `command` is how a person repeats it.
  bool runPasses(const Pipeline &pipeline);

  const ModelOptions &modelOptions() const { return model_; }
  /// Whether there is a module: once it is loaded, of a .tn file once it is open.
  bool hasModule() const { return module_ != nullptr; }
  Module &module() { return *module_; }
  /// Puts another version of the module in its place.
  std::unique_ptr<Module> exchange(std::unique_ptr<Module> other);
  Context &context() { return context_; }
  Diagnostics &diagnostics() { return diagnostics_; }
  PassContext &passContext() { return passContext_; }
  const std::vector<PassRun> &passRuns() const { return runs_; }
  /// What fp16 may not hold; none where nothing is stored in it.
  const llvm::Optional<OverflowReport> &overflows() const { return overflows_; }
  /// What --decoder found.
  const llvm::Optional<DecoderInterface> &decoder() const { return import_.decoder; }
  /// What passes and the choice of schedules fused, or why they did not.
  std::vector<FusionDecision> fusions() const;
  /// What the choice of schedules noted.
  const ScheduleLog &scheduleLog() const { return *log_; }
  /// ONNX tensor names with their values; empty for .tn files, invalid once a pass has run.
  const std::vector<std::pair<std::string, Value *>> &names() const { return names_; }
  /// Files that the import read beside the model's own.
  std::vector<std::string> externalFiles() const;
  /// Reports external data that was written since the import: what was made of it is worthless.
  bool externalDataUnchanged();
  /// What the command answers after a failure.
  Status status() const { return status_; }

private:
  /// schedule() with an arena of at most options.ramLimit bytes (compiler/RamLimit.cpp).
  bool scheduleWithin(const Target &target, const ScheduleOptions &options);
  /// Schedules a copy of an optimised module, its first windows in strips (0: whole). Bytes of the
  /// arena.
  llvm::Optional<int64_t> arenaInStrips(const Module &optimized, int64_t windows, int64_t count,
                                        const Target &target, const ScheduleOptions &options);
  /// Reports what does not fit into the memories of --pool.
  bool fitsPools();
  /// Says what takes the memory of a graph whose arena has `much` bytes or more.
  void warnOfMemory(int64_t much);
  bool readControls();
  /// Looks for what fp16 may not hold.
  bool lookForOverflows();
  /// Gives inputs and outputs the forms that --io asks for.
  bool reshapePorts();
  /// Finds what --decoder asks for in the model's interface.
  bool readDecoder();
  /// Notes in the module what made it, for the head of generated files.
  void noteOptions(llvm::StringRef text);
  bool fail(Status status) { return status_ = status, false; }
  /// Runs `work`; when it crashes, the host keeps `reproducer`, else the model.
  bool guarded(llvm::StringRef what, const Module *reproducer, llvm::StringRef command,
               llvm::function_ref<bool()> work);
  bool verified(llvm::StringRef after);

  CompilerHost &host_;
  ModelOptions model_;
  PipelineOptions options_;
  Diagnostics diagnostics_;
  Context context_;
  PassContext passContext_;
  ImportOptions import_;
  std::vector<PortRequest> ports_;
  llvm::Optional<bool> quantizedIo_;
  llvm::Optional<OverflowReport> overflows_;
  std::unique_ptr<OnnxModel> onnx_;
  std::unique_ptr<Module> module_;
  bool grouped_ = false, quantizedByDefault_ = false, nodesLookedUp_ = false, entries_ = false;
  std::vector<DeclaredTensor> inputs_, outputs_;
  std::vector<std::pair<std::string, Value *>> names_;
  std::vector<ExternalFile> externalFiles_;
  std::vector<PassRun> runs_;
  std::shared_ptr<ScheduleLog> log_ = std::make_shared<ScheduleLog>();
  Status status_ = Done;
};

} // namespace tenon
