// Defines ReductionForm: what a reduce computes, as kernels take it.
//
// The region of a reduce takes accumulators and elements in one go: (acc, x) → acc + x · x. The
// kernel of `reduce` wants the work on elements apart from the merging of accumulators, so that
// it may keep several. The region is split where every accumulator meets exactly one value made of
// elements only: here x · x becomes the pre-body and acc + v the combiner. ArgMax splits so, too.
#pragma once

#include "codegen/forms/Operands.h"

namespace tenon {

/// The anchor as programs over its iteration space.
struct ReductionForm {
  /// Reads and work on elements; outputs: what the combiner takes.
  ScalarProgram pre;
  /// Anchor nodes 0 … n−1 are the accumulators, the following ones the outputs of `pre`.
  ScalarProgram combine;
  llvm::SmallVector<Element, 2> accumulators, values;
  bool splits = false;
};

ReductionForm reduction(const GroupForm &form);

/// The iteration space in the order of memory: what is kept, then what is reduced.
struct ReductionNest {
  MergedDims kept, reduced;
  /// Where dimensions of the whole space, and of the body's, went.
  llvm::SmallVector<int, 6> places, keptPlaces;

  /// Strides of an operand of the anchor, along kept and reduced dimensions.
  Strides overAll(const Strides &s) const;
  /// Strides of an operand of the body or an output, along kept dimensions.
  Strides overKept(const Strides &s) const;

  llvm::SmallVector<unsigned, 6> keptDims; // dimensions of the space that the body has
  unsigned rank = 0;
  bool noneKept = false, noneReduced = false; // stand-ins of extent 1 were added
};
/// `atLeastOne`: kept and reduced have a dimension each, of extent 1 where there is none.
ReductionNest reductionNest(const GroupForm &form, const ReductionForm &r, bool atLeastOne = false);

/// Writes the struct that merges accumulators, the functor of `combine` with the identity (the
/// anchor's attribute init) beside it; returns an expression that makes one.
std::string writeCombiner(const GroupForm &form, const ReductionForm &r, StepWriter &out);
/// The same of a scan, whose combiner takes two values.
std::string writeScanCombiner(const GroupForm &form, StepWriter &out);

} // namespace tenon
