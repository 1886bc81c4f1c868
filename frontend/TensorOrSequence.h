// Defines TensorOrSequence: what a name of the model stands for. Sequences and optionals are
// lowered while they are imported: a sequence is the list of its tensors, or, where their number is
// open, a tensor that stacks them; an optional is what it holds, or nothing.
#pragma once

#include "ir/IR.h"

#include "llvm/ADT/Optional.h"

#include <memory>
#include <vector>

namespace tenon::frontend {

using Elements = std::vector<Value *>;

/// The elements of a sequence of open length: slices of `pieces` along its first dimension. Where
/// they differ in the extent of `axis`, each is filled up, and `lengths`, i64, says what counts.
struct Stack {
  Value *pieces;
  Value *lengths = nullptr;
  int64_t axis = 0; // of an element
};

class TensorOrSequence {
public:
  /// Nothing: an operand left out, or an optional without a value.
  TensorOrSequence() = default;
  TensorOrSequence(Value *tensor) : tensor_(tensor) {}
  TensorOrSequence(Elements elements)
      : elements_(std::make_shared<const Elements>(std::move(elements))) {}
  TensorOrSequence(const Stack &stack) : stackAxis_(stack.axis) {
    Elements all{stack.pieces};
    if (stack.lengths)
      all.push_back(stack.lengths);
    elements_ = std::make_shared<const Elements>(std::move(all));
  }

  explicit operator bool() const { return tensor_ || elements_; }
  /// The tensor; null where there is none.
  Value *tensor() const { return tensor_; }
  /// The elements of a sequence of known length; null where there is none.
  const Elements *elements() const { return stackAxis_ < 0 ? elements_.get() : nullptr; }
  /// A sequence of open length; None where there is none.
  llvm::Optional<Stack> stack() const {
    if (stackAxis_ < 0)
      return llvm::None;
    return Stack{elements_->front(), elements_->size() > 1 ? elements_->back() : nullptr,
                 stackAxis_};
  }
  /// All tensors, in order.
  llvm::ArrayRef<Value *> values() const {
    return elements_ ? llvm::ArrayRef<Value *>(*elements_)
           : tensor_ ? llvm::ArrayRef<Value *>(tensor_)
                     : llvm::ArrayRef<Value *>();
  }
  /// Both are nothing, both tensors, or both sequences of one length.
  bool isLike(const TensorOrSequence &other) const {
    return !tensor_ == !other.tensor_ && !elements_ == !other.elements_ &&
           stackAxis_ == other.stackAxis_ && values().size() == other.values().size();
  }
  /// The same with the first of `values`, which are taken off.
  TensorOrSequence with(llvm::ArrayRef<Value *> &values) const {
    TensorOrSequence same = *this;
    const llvm::ArrayRef<Value *> mine = values.take_front(this->values().size());
    values = values.drop_front(mine.size());
    if (elements_)
      same.elements_ = std::make_shared<const Elements>(mine.begin(), mine.end());
    else if (tensor_)
      same.tensor_ = mine[0];
    return same;
  }

private:
  Value *tensor_ = nullptr;
  std::shared_ptr<const Elements> elements_; // of a stack its pieces and lengths
  int64_t stackAxis_ = -1;                   // -1: no stack
};

using TensorsOrSequences = llvm::SmallVector<TensorOrSequence, 8>;
/// The tensors of all, in order.
llvm::SmallVector<Value *, 8> flattened(llvm::ArrayRef<TensorOrSequence> items);

} // namespace tenon::frontend
