// Defines what the tactics of C++ and CUDA read alike of their anchors: checks, tables and the
// order of dimensions. What differs is the text of the call.
#pragma once

#include "codegen/core/ConvProblem.h"
#include "codegen/core/LoopNest.h"
#include "codegen/forms/Operands.h"

namespace tenon {

// --- reduce ---

/// A reduce whose elements are read without bounds; and whose combiner merges partial results, too.
Result<> matchFold(const GroupQuery &in);
Result<> matchReduce(const GroupQuery &in);

// --- conv and pool ---

/// The window of a plane: its extents, steps, dilation, and the pads before it.
void writeWindow(StepWriter::Config &config, const ConvProblem &p);
/// The depth of a volume: its extents, step, dilation, and the pad in front.
void writeDepth(StepWriter::Config &config, const ConvProblem &p);

// --- pool ---

/// What kernels call the kind of a pool: "pooling_max", "pooling_mean" or "pooling_mean_padded".
llvm::StringRef poolingKind(const Operation &pool);
/// A maximum stays in the elements' type, a mean adds up in the computing type.
Element poolingAccumulator(const Operation &pool);
/// The extents, windows, steps and pads of a pool in a plane.
void writePooling(StepWriter::Config &config, const Operation &pool, const ConvProblem &p);

// --- gather, pad, shape_of, topk ---

Result<> matchGather(const GroupQuery &in);
struct GatherForm {
  /// Strides over the result's space: of what is picked from (0 along the axis), of the indices.
  Strides from, indices;
  /// The body alone.
  LoopNest nest;
  Dim stride, extent; // of the axis that is picked along
};
GatherForm gatherForm(const GroupForm &form);

/// A pad that repeats, mirrors or continues the tensor.
Result<> matchBorderPad(const GroupQuery &in);
Result<> matchShapeOf(const GroupQuery &in);

/// A space whose dimension `axis` comes last.
struct AxisLast {
  unsigned axis;
  llvm::SmallVector<Dim, 6> others;  // extents but for the axis
  llvm::SmallVector<int, 6> placeOf; // by dimension
  Strides operator()(const Strides &s) const;
};
AxisLast axisLast(Type x, unsigned axis);

} // namespace tenon
