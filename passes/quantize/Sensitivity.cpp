// Implements the measurement of quantised networks by the interpreter.
#include "passes/quantize/Sensitivity.h"

#include "ir/Interpreter.h"

#include <algorithm>
#include <cmath>

namespace tenon {
namespace {

/// Position of the largest value.
int64_t decision(const Tensor &t) {
  int64_t best = 0;
  for (int64_t i = 1; i < t.size(); ++i)
    if (t.at(i) > t.at(best))
      best = i;
  return best;
}

} // namespace

double QuantizationCost::decibels() const {
  return noise > 0 ? std::min(-10 * std::log10(noise), 200.0) : 200;
}

bool CostEvaluator::run(Graph &graph, size_t count, Outputs &out) {
  for (size_t i = 0; i < count; ++i) {
    out.emplace_back();
    if (!interpret(graph, samples_[i], out.back(), diagnostics_))
      return false;
  }
  return true;
}

double CostEvaluator::accuracy(const Outputs &outputs) const {
  double right = 0;
  for (size_t i = 0; i < outputs.size(); ++i)
    right += decision(outputs[i][0]) == labels_[i];
  return right / double(outputs.size());
}

bool CostEvaluator::prepare() {
  if (!run(module_.graph(), samples_.size(), reference_))
    return false;
  if (labels_.empty())
    for (const std::vector<Tensor> &o : reference_)
      labels_.push_back(decision(o[0]));
  floatAccuracy_ = accuracy(reference_);
  return true;
}

llvm::Optional<QuantizationCost> CostEvaluator::cost(const QuantizationPlan &plan, size_t count) {
  std::unique_ptr<Module> copy = module_.clone();
  insertQuantization(copy->graph(), plan, diagnostics_);
  Outputs outputs;
  if (!run(copy->graph(), std::min(count, samples_.size()), outputs))
    return llvm::None;
  double signal = 0, noise = 0;
  for (size_t i = 0; i < outputs.size(); ++i)
    for (size_t k = 0; k < outputs[i].size(); ++k)
      if (isFloat(outputs[i][k].element()))
        for (int64_t e = 0; e < outputs[i][k].size(); ++e) {
          const double y = reference_[i][k].at(e), d = outputs[i][k].at(e) - y;
          signal += y * y;
          noise += d * d;
        }
  QuantizationCost cost;
  cost.noise = signal > 0 ? noise / signal : noise;
  cost.accuracy = accuracy(outputs);
  return cost;
}

} // namespace tenon
