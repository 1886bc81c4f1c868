// Defines how a float graph becomes its quantised twin: quantize and dequantize around the layers
// that a plan names. What compiles it then turns them into integer arithmetic.
#pragma once

#include "passes/quantize/Layers.h"
#include "passes/quantize/RangeMethods.h"

namespace tenon {

struct QuantizationPlan {
  const Statistics *statistics = nullptr; // by value number of the graph
  const RangeMethod *method = nullptr;
  bool perChannel = true;
  /// Takes what rounding of the weights adds to the mean of each channel off the biases.
  bool correctBias = true;
  /// By layer; empty: all.
  std::vector<bool> layers;
};

/// Changes `graph`, whose layers are numbered as when the statistics were made.
void insertQuantization(Graph &graph, const QuantizationPlan &plan, Diagnostics &diagnostics);

} // namespace tenon
