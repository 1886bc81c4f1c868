// Defines how a float graph becomes its quantised twin: quantize and dequantize around the layers
// that a plan names. What compiles it then turns them into integer arithmetic.
#pragma once

#include "passes/quantize/Layers.h"
#include "passes/quantize/RangeMethods.h"

namespace tenon {

/// What 8 bits are spread over, for one value.
struct ValueRange {
  bool known = false;
  double low = 0, high = 0; // with zero between them
  /// Of what contractions read: with them biases make up for the rounding of weights.
  std::vector<double> channelMeans;
};

struct QuantizationPlan {
  /// Of activations and weights: I8, or F8E4M3, which only contractions take.
  Element element = Element::I8;
  std::vector<ValueRange> values; // by value number of the graph
  bool perChannel = true;
  /// By layer; empty: all.
  std::vector<bool> layers;
};

/// Whether a layer can be quantised to `element`.
inline bool takesElement(const QuantizableLayer &layer, Element element) {
  return element == Element::I8 || layer.isContraction();
}

/// The ranges that `method` chooses; without `means`, biases stay as they are.
std::vector<ValueRange> chooseRanges(const Statistics &statistics, const RangeMethod &method,
                                     bool means);

/// Changes `graph`, whose layers are numbered as when the statistics were made.
void insertQuantization(Graph &graph, const QuantizationPlan &plan, Diagnostics &diagnostics);

} // namespace tenon
