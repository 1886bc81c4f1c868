// Defines what can be quantised in a float graph: layers, each an operation that the integer passes
// know with the pointwise tail that joins it, and the values around them that become integers.
//
// Finding them changes nothing and depends on the graph alone: clones of a module have the same
// layers and the same value numbers.
#pragma once

#include "passes/Maps.h"

#include "llvm/ADT/DenseMap.h"

namespace tenon {

/// Where a contraction's bias stands: operand `operand` of `map`, a constant along the channels.
struct BiasPlace {
  Operation *map = nullptr;
  unsigned operand = 0;
};

struct QuantizableLayer {
  /// A convolution or product, an average, a softmax, a map that adds, scales and multiplies, or
  /// one that is a function of one tensor.
  Operation *anchor = nullptr;
  /// The maps behind it that only it feeds.
  llvm::SmallVector<Operation *, 2> tail;
  /// What becomes integers before and behind it.
  llvm::SmallVector<Value *, 2> inputs;
  Value *result = nullptr;

  /// With constant weights.
  bool isContraction() const;
  /// The dimension of its weights that the output channels follow.
  int64_t weightAxis() const;
  /// The dimension of its result that they follow.
  int64_t resultAxis() const;
  /// Its bias, when the tail begins with one.
  llvm::Optional<BiasPlace> bias() const;
  /// The node that a person knows it by.
  std::string name() const;
};

std::vector<QuantizableLayer> findLayers(Graph &graph);

/// Numbers of the values at graph level: inputs first, then results in order.
class ValueNumbers {
public:
  explicit ValueNumbers(Graph &graph);
  /// −1 for values elsewhere.
  int of(const Value *v) const {
    auto it = numbers_.find(v);
    return it == numbers_.end() ? -1 : it->second;
  }
  size_t size() const { return numbers_.size(); }
  /// By number, names that people and files call values by: those of inputs, and of the nodes that
  /// results come from; the second of a name is called NAME#2.
  std::vector<std::string> names() const;

private:
  Graph &graph_;
  llvm::DenseMap<const Value *, int> numbers_;
};

} // namespace tenon
