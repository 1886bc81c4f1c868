// Defines RowNest: the space of an anchor that works on rows of its operand (softmax, normalize) in
// the order of memory, the dimensions that rows are numbered by first, those along a row last.
#pragma once

#include "codegen/forms/Operands.h"

namespace tenon {

struct RowNest {
  /// Kept extents, then reduced ones: at least one of those (extent 1 stands in for none).
  llvm::SmallVector<Dim, 6> extents;
  unsigned kept = 0;
  /// For each dimension of the anchor's result its place in `extents`, -1 when dropped or merged.
  llvm::SmallVector<int, 6> placeOf;

  llvm::ArrayRef<Dim> keptExtents() const { return llvm::makeArrayRef(extents).take_front(kept); }
  llvm::ArrayRef<Dim> reducedExtents() const {
    return llvm::makeArrayRef(extents).drop_front(kept);
  }
  /// Most elements that a row can have.
  int64_t rowLength() const;

  /// Strides of an operand or result along `extents`.
  Strides operator()(const Strides &s) const;

private:
  friend RowNest rowNest(const GroupForm &, llvm::ArrayRef<int64_t>, bool);
  llvm::SmallVector<int, 6> inner_; // the dimension whose stride each has, -1 for a stand-in
};

/// `axes`: the dimensions along a row. The anchor reads operand 0 point by point.
/// `atLeastOne`: a kept dimension of extent 1 stands in where there is none.
RowNest rowNest(const GroupForm &form, llvm::ArrayRef<int64_t> axes, bool atLeastOne = true);

/// A group whose anchor works on rows along its attribute `axis` or `axes`.
struct RowProblem {
  GroupQuery in;
  RowNest nest;
};
RowProblem rowProblem(const GroupQuery &in, bool atLeastOne = true);
/// The same where the anchor is `kind` and reads without bounds.
Result<RowProblem> matchRows(const GroupQuery &in, Op kind, bool atLeastOne = true);

} // namespace tenon
