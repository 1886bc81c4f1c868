// Defines TensorOrSequence: what a name of the model stands for. Sequences and optionals are
// lowered while they are imported: a sequence is the list of its tensors, an optional is what it
// holds, or nothing.
#pragma once

#include "ir/IR.h"

#include <memory>
#include <vector>

namespace tenon::frontend {

using Elements = std::vector<Value *>;

class TensorOrSequence {
public:
  /// Nothing: an operand left out, or an optional without a value.
  TensorOrSequence() = default;
  TensorOrSequence(Value *tensor) : tensor_(tensor) {}
  TensorOrSequence(Elements elements)
      : elements_(std::make_shared<const Elements>(std::move(elements))) {}

  explicit operator bool() const { return tensor_ || elements_; }
  /// The tensor; null where there is none.
  Value *tensor() const { return tensor_; }
  /// The elements of a sequence; null where there is none.
  const Elements *elements() const { return elements_.get(); }
  /// All tensors, in order.
  llvm::ArrayRef<Value *> values() const {
    return elements_ ? llvm::ArrayRef<Value *>(*elements_)
           : tensor_ ? llvm::ArrayRef<Value *>(tensor_)
                     : llvm::ArrayRef<Value *>();
  }
  /// Both are nothing, both tensors, or both sequences of one length.
  bool isLike(const TensorOrSequence &other) const {
    return !tensor_ == !other.tensor_ && !elements_ == !other.elements_ &&
           values().size() == other.values().size();
  }
  /// The same with the first of `values`, which are taken off.
  TensorOrSequence with(llvm::ArrayRef<Value *> &values) const {
    const llvm::ArrayRef<Value *> mine = values.take_front(this->values().size());
    values = values.drop_front(mine.size());
    return elements_ ? TensorOrSequence(Elements(mine.begin(), mine.end()))
           : tensor_ ? TensorOrSequence(mine[0])
                     : TensorOrSequence();
  }

private:
  Value *tensor_ = nullptr;
  std::shared_ptr<const Elements> elements_;
};

using TensorsOrSequences = llvm::SmallVector<TensorOrSequence, 8>;
/// The tensors of all, in order.
llvm::SmallVector<Value *, 8> flattened(llvm::ArrayRef<TensorOrSequence> items);

} // namespace tenon::frontend
