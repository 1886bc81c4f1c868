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
  int64_t filters = 0, channels = 0, taps = 1, groups = 1; // filters and channels of a group
  int64_t zero = 0, weightZero = 0;                        // of x and of the weights
  bool padded = false, matrix = false, transB = false;

  bool isDepthwise() const { return groups > 1 && channels == 1 && filters == 1; }
  /// Weight of tap t between channel c and filter k of the only group, less its zero point.
  int64_t weightOf(int64_t k, int64_t c, int64_t t) const {
    return weights->intAt(matrix && !transB ? c * filters + k : (k * channels + c) * taps + t) -
           weightZero;
  }
  /// visit(filter, channel, weight less its zero point) for all weights as they are stored; filters
  /// and channels are counted over all groups.
  template <class Visit> void forEach(const Visit &visit) const {
    const bool filtersLast = matrix && !transB;
    withInts(*weights, [&](const auto &w) {
      int64_t i = 0;
      for (int64_t outer = 0; outer < (filtersLast ? channels : groups * filters); ++outer)
        for (int64_t inner = 0; inner < (filtersLast ? filters : channels); ++inner)
          for (int64_t t = 0; t < taps; ++t, ++i)
            visit(filtersLast ? inner : outer,
                  filtersLast ? outer : outer / filters * channels + inner,
                  int64_t(w[i]) - weightZero);
    });
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
