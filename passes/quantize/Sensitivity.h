// Defines what quantisation costs: how far outputs are from the float network's, and how many
// decisions are right.
#pragma once

#include "passes/quantize/Insert.h"

namespace tenon {

struct QuantizationCost {
  /// Power of the difference of outputs over that of the outputs.
  double noise = 0;
  /// Share of samples whose largest output is the right one.
  double accuracy = 0;
  double decibels() const; // of signal over noise
};

class CostEvaluator {
public:
  /// `labels`: the right positions of the largest value of output 0, by sample; empty: those of the
  /// float network.
  CostEvaluator(Module &module, llvm::ArrayRef<Sample> samples, std::vector<int64_t> labels,
                Diagnostics &diagnostics)
      : module_(module), samples_(samples), labels_(std::move(labels)), diagnostics_(diagnostics) {}

  /// Runs the float network; false after an error.
  bool prepare();
  double floatAccuracy() const { return floatAccuracy_; }
  /// Of the network as `plan` quantises it, on the first `count` samples.
  llvm::Optional<QuantizationCost> cost(const QuantizationPlan &plan, size_t count);

private:
  using Outputs = std::vector<std::vector<Tensor>>;
  bool run(Graph &graph, size_t count, Outputs &out);
  double accuracy(const Outputs &outputs) const;

  Module &module_;
  llvm::ArrayRef<Sample> samples_;
  std::vector<int64_t> labels_;
  Diagnostics &diagnostics_;
  Outputs reference_;
  double floatAccuracy_ = 0;
};

} // namespace tenon
