// Declares what becomes of the values that a Loop carries: some go from iteration to iteration; a
// list that the body only appends to grows by a piece each time, and is stacked outside instead.
#pragma once

#include "frontend/onnx/Node.h"

namespace onnx {
class GraphProto;
}

namespace tenon::frontend {

/// A carried list that the body only appends to.
struct AppendedList {
  unsigned carried; // number of the value
  int64_t axis;     // grows
};

class CarriedValues {
public:
  /// `count` of them, from operand 2 of `n` on.
  CarriedValues(const Node &n, const onnx::GraphProto &body, unsigned count);

  /// Numbers of those that go from iteration to iteration.
  llvm::ArrayRef<unsigned> kept() const { return kept_; }
  llvm::ArrayRef<AppendedList> lists() const { return lists_; }

  /// The body's inputs from the arguments of the region, which are the trip, the condition and what
  /// is kept. Lists are empty when an iteration starts.
  llvm::SmallVector<Value *, 8> inputs(const Node &n, Builder &b,
                                       llvm::ArrayRef<Value *> arguments) const;
  /// The body's results in the loop's order: the condition, what is kept, what is appended to
  /// lists, what is stacked anyway.
  llvm::SmallVector<Value *, 8> results(llvm::ArrayRef<Value *> yields) const;
  /// Sets the node's results from the loop's; nothing for null.
  void set(Node &n, Operation *loop) const;

private:
  llvm::SmallVector<unsigned, 8> kept_;
  llvm::SmallVector<AppendedList, 2> lists_;
};

} // namespace tenon::frontend
