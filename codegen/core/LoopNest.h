// Defines LoopNest: the iteration space of a scalar program in the order it should be walked.
//
// The logical order of dimensions says nothing about memory. The nest orders them by the stride of
// the first output, outermost first, drops extents of 1, and merges neighbours that every operand
// walks as one: a pointwise group over NHWC tensors becomes one loop.
#pragma once

#include "codegen/core/GroupForm.h"

namespace tenon {

struct LoopNest {
  llvm::SmallVector<Dim, 6> extents; // at least one; a scalar has one extent of 1
  /// Per input of the program and per output of the form: strides along `extents`, offset of the
  /// first point.
  std::vector<Strides> inputs, outputs;
  /// For bounded inputs: the range per extent (dimensions of bounded inputs are never merged).
  std::vector<llvm::SmallVector<std::pair<Dim, Dim>, 6>> inside;
  /// For each dimension of the program's space: its place in `extents`, −1 when dropped or merged
  /// into another; programs that use an index keep the dimensions they use.
  llvm::SmallVector<int, 6> placeOf;
};

/// `longInner`: a long dimension goes inside an innermost one of a few elements, and whole lines
/// are read as they lie in the one input (for targets that walk loops one after another).
LoopNest loopNest(const ScalarProgram &program, llvm::ArrayRef<OutputForm> outputs,
                  bool longInner = false);

} // namespace tenon
