// Defines the ranges that floats of a graph can take, given those of its inputs: bounds that hold
// for every input, from the weights and the functions between them. They are no estimates: what a
// network takes in practice lies well within.
#pragma once

#include "ir/Interval.h"
#include "passes/Maps.h"

#include "llvm/ADT/DenseMap.h"

namespace tenon {

/// One interval for each channel (dimension 1), or one for all.
using Intervals = std::vector<Interval>;
Interval hull(const Intervals &all);

/// Where a value's bound comes from, for people.
struct Growth {
  /// Largest sum of absolute weights of a contraction; 0 where the value is none.
  double gain = 0;
  /// The bound of what it multiplies.
  double input = 0;
};

class FloatRanges {
public:
  /// `inputs`: by name; the others lie within `assumed`.
  FloatRanges(Graph &graph, std::map<std::string, Interval> inputs, Interval assumed)
      : graph_(graph), inputs_(std::move(inputs)), assumed_(assumed) {}

  /// Of a tensor at graph level or inside a group.
  const Intervals &of(Value *v);
  /// What is known of a value from elsewhere.
  void set(Value *v, Intervals ranges) { ranges_[v] = std::move(ranges); }
  /// Of a contraction with constant weights that was asked for.
  Growth growthOf(const Operation &op) const { return growth_.lookup(&op); }

private:
  Intervals compute(Value *v);
  Intervals ofArgument(Value *v);
  Intervals ofMap(Operation &op, unsigned result);
  Intervals ofContraction(Operation &op);
  Intervals ofReduce(Operation &op);

  Graph &graph_;
  std::map<std::string, Interval> inputs_;
  Interval assumed_;
  llvm::DenseMap<Value *, Intervals> ranges_;
  llvm::DenseMap<const Operation *, Growth> growth_;
};

} // namespace tenon
