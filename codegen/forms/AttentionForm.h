// Defines what tactics of attention share: the operation's dimensions as kernels take them, the
// checks on its operands and the text that hands them over.
#pragma once

#include "codegen/forms/Operands.h"
#include "ir/Attention.h"

namespace tenon {

/// The dimensions of an attention: leading ones, merged where every operand walks them as one, then
/// two of an operand's own.
class AttentionForm {
public:
  /// Without `merge` leading dimensions are those of the result that have more than one element.
  explicit AttentionForm(const GroupForm &form, bool merge = true);

  llvm::ArrayRef<Dim> leading() const { return leading_.extents; }
  /// How many heads there are in all, at upper bounds.
  double heads() const;
  Dim queries() const { return space_[rank() - 2]; }
  Dim keys() const { return own(1)[own(1).size() - 2]; }
  Dim depth() const { return own(0).back(); }
  Dim extent() const { return space_.back(); }

  /// Strides of operand i (0 q, 1 k, 2 v, 3 bias), and of the result, over (leading…, row, column).
  Strides view(unsigned i) const { return merged(operand(i)); }
  Strides resultView() const { return merged(result()); }

  bool hasBias() const { return at_.bias != 0; }
  /// Operands that are added to scores by a coordinate of the key.
  unsigned countOfParts() const { return at_.factors; }
  unsigned part(unsigned i) const { return at_.parts + i; }
  unsigned countOfAdded() const { return hasBias() + countOfParts(); }
  AttentionFactor factor(unsigned i) const { return attentionFactor(*form_.anchor, i); }
  /// Whether positions come from memory, keys before a window are hidden, or scores have a bound:
  /// kernels take an `attention_order` then.
  bool hasOrder() const;
  /// The share of scores that no attribute hides, at upper bounds.
  double visibleShare() const;

  /// Writes the extents, what is hidden and what is undefined into a kernel's configuration.
  void configure(StepWriter::Config &cfg) const;
  /// Declares the views q, k, v and y (or, where maps follow, attention_results), the pack `bias`
  /// (a view, or what attention_parts are) and, where there is one, `order`; `change` rewrites the
  /// strides of each.
  void writeViews(
      StepWriter &out, StepWriter::Change change = [](const Strides &s) { return s; }) const;

  /// The same of all but q, k and v, whose strides in the chain are the caller's.
  void writeRest(StepWriter &out, StepWriter::Change change) const;

  /// What the kernel is called with: a configuration, the scale, and what writeViews declares.
  std::vector<std::string> arguments(const std::string &config) const;

  Context &context() const { return form_.anchor->result()->type().context(); }
  /// Strides over (leading…, row, column) of those over an operand's own dimensions, `shape`.
  Strides aligned(const Strides &own, llvm::ArrayRef<Dim> shape) const {
    return merged(spread(own, shape));
  }

private:
  void writeResults(StepWriter &out, StepWriter::Change change) const;
  unsigned rank() const { return unsigned(space_.size()); }
  llvm::ArrayRef<Dim> own(unsigned i) const { return form_.anchorInputs[i].space; }
  Strides operand(unsigned i) const;
  Strides result() const;
  Strides spread(const Strides &own, llvm::ArrayRef<Dim> shape) const;
  Strides merged(const Strides &s) const;

  const GroupForm &form_;
  AttentionOperands at_;
  llvm::SmallVector<Dim, 6> space_;
  MergedDims leading_;
};

/// What a kernel of attention takes beside the plain operation.
struct AttentionTakes {
  bool order = false; ///< positions, windows, bounds of scores (hasOrder)
  bool parts = false; ///< what is added by coordinates of keys
  bool body = false;  ///< maps of the results
};
/// An attention, without maps behind it unless taken, whose heads have at most `largestHead`
/// elements, and whose operands `first` (0 q, 1 k) to v are contiguous along their last dimension.
Result<> matchAttention(const GroupQuery &in, int64_t largestHead, unsigned first,
                        AttentionTakes takes = {});

} // namespace tenon
