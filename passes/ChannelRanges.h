// Defines the ranges of values that each channel of an integer tensor can take, from the weights.
#pragma once

#include "passes/Maps.h"

#include "llvm/ADT/DenseMap.h"

namespace tenon {

/// The smallest and the largest value; inclusive.
struct Range {
  int64_t low = 0, high = 0;
  bool isConstant() const { return low == high; }
};
using ChannelRanges = std::vector<Range>;

/// Channels are dimension 1, as the results of contractions have them.
inline constexpr unsigned kChannelDim = 1;

/// An integer contraction with constant weights, taken apart.
struct WeightedSum {
  Literal weights;
  std::vector<int64_t> values;                             // of the weights, less their zero point
  int64_t filters = 0, channels = 0, taps = 1, groups = 1; // filters and channels of a group
  int64_t zero = 0;                                        // of x
  bool padded = false, matrix = false, transB = false;

  bool isDepthwise() const { return groups > 1 && channels == 1 && filters == 1; }
  /// Weight of tap t between channel c and filter k of a group.
  size_t index(int64_t group, int64_t k, int64_t c, int64_t t) const {
    if (matrix)
      return size_t(transB ? k * channels + c : c * filters + k);
    return size_t(((group * filters + k) * channels + c) * taps + t);
  }
};
llvm::Optional<WeightedSum> weightedSum(const Operation &op);

/// Ranges of values, computed when they are asked for.
class RangeAnalysis {
public:
  /// One range per channel; empty when the value has no integers or no fixed number of channels.
  const ChannelRanges &of(Value *v);
  /// What is known of a value that takes the place of another.
  void set(Value *v, ChannelRanges ranges) { ranges_[v] = std::move(ranges); }

private:
  ChannelRanges compute(Value *v);
  llvm::DenseMap<Value *, ChannelRanges> ranges_;
};

} // namespace tenon
