// Defines what calibration learns of a value from running the float network: extremes, the
// distribution between them, means of channels.
#pragma once

#include "passes/quantize/Layers.h"

#include "ir/Tensor.h"

namespace tenon {

/// How often values fell into each of equal steps from `low` to `high`; zeros, which every range
/// holds exactly, are not counted.
struct Histogram {
  static constexpr int kBins = 2048;
  double low = 0, high = 0;
  std::vector<double> counts;

  double width() const { return (high - low) / kBins; }
  double middle(int bin) const { return low + (bin + 0.5) * width(); }
};

struct ValueStatistics {
  double low = 0, high = 0; // with zero between them
  Histogram histogram;
  /// Of what contractions read.
  std::vector<double> channelMeans, channelMagnitudes;
};

/// Statistics by value number, of the values that layers need; the others' are empty.
using Statistics = std::vector<ValueStatistics>;

/// One set of inputs of the network, in the order of the graph.
using Sample = std::vector<Tensor>;

/// Called with the share of the work that is done, 0 to 1.
using Progress = std::function<void(double)>;

/// Runs the graph on all samples, twice: for the extremes, and for what lies between them. False
/// after an error, which is reported.
bool gatherStatistics(Graph &graph, llvm::ArrayRef<QuantizableLayer> layers,
                      llvm::ArrayRef<Sample> samples, Statistics &out, const Progress &progress,
                      Diagnostics &diagnostics);

} // namespace tenon
