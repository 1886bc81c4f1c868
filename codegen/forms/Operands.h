// Defines what tactics share: dimensions in the order and number that a kernel takes, how the
// operands of an anchor are handed over, and checks on both.
#pragma once

#include "codegen/core/Tactic.h"
#include "codegen/emit/StepWriter.h"

namespace tenon {

/// Some dimensions of an iteration space, in memory order, neighbours merged where every operand
/// walks them as one.
struct MergedDims {
  llvm::SmallVector<Dim, 6> extents;
  /// The dimension whose stride each has: the innermost of those merged.
  llvm::SmallVector<unsigned, 6> inner;
  /// For each dimension of the original space its place, −1 when dropped or merged.
  llvm::SmallVector<int, 6> placeOf;

  /// Strides along these dimensions.
  Strides operator()(const Strides &s) const;
};

/// `order`: dimensions of `space`, outermost first. Extents of 1 are dropped; dimensions in `kept`
/// neither dropped nor merged.
MergedDims mergeDims(llvm::ArrayRef<Dim> space, llvm::ArrayRef<unsigned> order,
                     llvm::ArrayRef<Strides> operands, llvm::ArrayRef<bool> kept = {});
/// `dims` by the strides of one operand, largest first.
llvm::SmallVector<unsigned, 6> byStride(llvm::ArrayRef<unsigned> dims, const Strides &s);

/// Strides of everything that a body reads and writes over its own space: outputs, then inputs.
std::vector<Strides> bodyStrides(const GroupForm &form);
/// Which dimensions a program asks the index of.
llvm::SmallVector<bool, 6> indexedDims(const ScalarProgram &program);
/// Dimensions of `rank` as they stand: for programs over a space that a kernel takes unchanged.
llvm::SmallVector<int, 6> inPlaceDims(unsigned rank);

/// True when the program's reads have no bounds (pads are the business of the tactic map).
Result<> isUnbounded(const ScalarProgram &program);
/// The checks that anchors share: the anchor is `kind` and the body reads without bounds.
Result<> matchAnchor(const GroupQuery &in, Op kind);
/// The anchor is a matrix product with integers and scales on its right (attribute `block`), all
/// constant.
Result<> matchNarrowProduct(const GroupQuery &in);
/// What kernels of other contractions ask for.
Result<> isWithoutScales(const Operation &op);
/// The constant operand of the group that operand `i` of the anchor reads as it is; else null.
Value *constantOperand(const GroupForm &form, unsigned i);

/// pack(…) of a program's inputs with strides changed; `placeOf` says where indexed dimensions
/// went.
std::string inputsIn(StepWriter &out, const ScalarProgram &program, StepWriter::Change change,
                     llvm::ArrayRef<int> placeOf);

/// The pack that has `first` before the inputs of the pack `ins`.
std::string packWithFirst(llvm::StringRef first, llvm::StringRef ins);

/// The anchor `op` alone, on operands as they lie.
Result<> matchAlone(const GroupQuery &in, Op op);
/// View of a plain read over its own space, and of the only result.
std::string plainView(StepWriter &out, const ScalarProgram &program);
std::string resultView(StepWriter &out, const GroupForm &form);
/// One extent as a value, `fixed` or `dyn`.
std::string single(StepWriter &out, Dim d);

/// What sums of `e` accumulate in: f32 for narrower floats, i32 for 8-bit integers.
Element accumulatorOf(Element e);

} // namespace tenon
