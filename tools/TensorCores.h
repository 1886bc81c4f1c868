// Defines the proof of Tensor Core use: which of their instructions the machine code of each layer
// has, and where there are none, why.
#pragma once

#include "codegen/core/TargetFamily.h"
#include "compiler/Compiler.h"
#include "tools/MachineCode.h"
#include "tools/ToolHost.h"

#include "llvm/Support/JSON.h"

namespace tenon {

class TensorCoreProof {
public:
  TensorCoreProof(ToolHost &host, Compiler &compiler, const Target &target)
      : host_(host), compiler_(compiler), target_(target) {}

  /// Builds what `compile` would write for the scheduled module, disassembles it and finds each
  /// step's kernel. False after reporting what is missing here, or a kernel that is for Tensor
  /// Cores and has none of their instructions; hasLayers() says whether there is a table.
  bool take(const CodeOptions &code, const ScheduleOptions &schedule);
  bool hasLayers() const { return !variants_.empty(); }

  void printText(llvm::raw_ostream &os) const;
  void printJson(llvm::raw_ostream &os) const;

private:
  /// One step on one machine.
  struct Layer {
    int step = 0;
    std::string tactic;
    std::vector<std::string> nodes;
    double flops = 0, microseconds = 0;
    TensorCoreVerdict verdict;
    /// What it may run; its instructions are those of the kernel that has the fewest.
    llvm::SmallVector<const KernelCode *, 2> kernels;
    const KernelCode *code() const { return kernels.empty() ? nullptr : kernels.front(); }
    bool isProven() const { return code() && code()->tensorInstructions() > 0; }
  };
  struct Variant {
    const TargetLevel *level;
    std::vector<Layer> layers;
    int contractions = 0, proven = 0;
    double flops = 0, microseconds = 0;             // of the model
    double provenFlops = 0, provenMicroseconds = 0; // of the layers on Tensor Cores
    /// Part of the machine's peak that the estimate comes to.
    double peak(const Layer &layer) const;
  };

  bool disassemble(const CodeOptions &code, std::string &sass);
  Variant readVariant(size_t index, const ScheduleOptions &schedule) const;
  bool check(const Variant &variant);
  void writeLayer(llvm::json::OStream &json, const Variant &variant, const Layer &layer) const;

  ToolHost &host_;
  Compiler &compiler_;
  const Target &target_;
  CompileSummary summary_;
  std::unique_ptr<MachineCode> code_;
  std::vector<Variant> variants_;
};

} // namespace tenon
