// Declares what becomes of the values that a Loop carries: some go from iteration to iteration; a
// list that the body only appends to, a tensor or a sequence, grows by a piece each time, and is
// stacked outside instead.
#pragma once

#include "frontend/onnx/Node.h"

namespace onnx {
class GraphProto;
}

namespace tenon::frontend {

/// A carried list that the body only appends to.
struct AppendedList {
  unsigned carried;             // number of the value
  llvm::Optional<int64_t> axis; // of a tensor, grows; of a sequence none
  bool several = false;         // a piece is a stack: of one element or none, as a branch decides
};

/// Whether carried value i of `n` is a sequence that the body only appends to.
bool isAppendedSequence(const Node &n, const onnx::GraphProto &body, unsigned i);

class CarriedValues {
public:
  /// `count` of them, from operand 2 of `n` on.
  CarriedValues(const Node &n, const onnx::GraphProto &body, unsigned count);

  /// Numbers of those that go from iteration to iteration.
  llvm::ArrayRef<unsigned> kept() const { return kept_; }
  llvm::ArrayRef<AppendedList> lists() const { return lists_; }

  /// The body's inputs from the arguments of the region, which are the trip, the condition and what
  /// is kept. Lists are empty when an iteration starts.
  TensorsOrSequences inputs(const Node &n, Builder &b, llvm::ArrayRef<Value *> arguments) const;
  /// The body's results without sequences: what an iteration appends to one stands for it.
  TensorsOrSequences appended(llvm::ArrayRef<TensorOrSequence> results);
  /// The body's results in the loop's order: the condition, what is kept, what is appended to
  /// lists, what is stacked anyway. Pieces that have extents among `born`, symbols of the body, are
  /// filled up to the bounds, and their extents are stacked behind. Empty after an error.
  llvm::SmallVector<Value *, 8> results(const Node &n, Builder &b, llvm::ArrayRef<Value *> yields,
                                        llvm::ArrayRef<Dim> born);
  /// Sets the node's results from the loop's; nothing for null.
  void set(Node &n, Operation *loop) const;

private:
  /// An extent of a piece that differs from iteration to iteration.
  struct RaggedExtent {
    unsigned piece;  // result of the loop
    int64_t axis;    // of the piece
    unsigned length; // result of the loop that stacks the extent
  };
  Value *filledUp(const Node &n, Builder &b, Value *piece, unsigned k, llvm::ArrayRef<Dim> born);
  /// Result k of `loop`, its pieces no longer than the longest; of a list with one of their lengths
  /// where they differ.
  Stack stack(Node &n, Operation *loop, unsigned k) const;

  llvm::SmallVector<unsigned, 8> kept_;
  llvm::SmallVector<AppendedList, 2> lists_;
  llvm::SmallVector<RaggedExtent, 2> ragged_;
};

} // namespace tenon::frontend
