// Defines the search for results that the range of fp16 may not hold.
#pragma once

#include "passes/FloatRanges.h"

namespace tenon {

/// A stored result of f16 whose values are not proven to stay within ±65504.
struct OverflowRisk {
  std::vector<std::string> nodes;
  /// The largest magnitude that inputs within their ranges can lead to; infinite where no bound is
  /// known. It supposes that nothing before it has overflowed.
  double bound = 0;
  /// What makes it large.
  std::string reason;
};

struct OverflowReport {
  /// Results of f16, and those that no input within the ranges makes overflow.
  size_t results = 0, safe = 0;
  std::vector<OverflowRisk> risks; // in the order of computing
  Interval assumed;                // of float inputs without a declared range
  bool usesAssumption = false;
};

/// Looks at what the groups of a graph store as f16. `inputs`: declared ranges, by name.
OverflowReport findOverflows(Graph &graph, const std::map<std::string, Interval> &inputs);

} // namespace tenon
