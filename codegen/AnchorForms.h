// Defines what the tactics of C++ and CUDA read alike of their anchors: checks, tables and the
// order of dimensions. What differs is the text of the call.
#pragma once

#include "codegen/ConvProblem.h"
#include "codegen/LoopNest.h"
#include "codegen/Operands.h"

namespace tenon {

// --- reduce ---

/// A reduce whose elements are read without bounds; and whose combiner merges partial results, too.
bool matchFold(const TacticInput &in, std::string &why);
bool matchReduce(const TacticInput &in, std::string &why);

// --- conv and pool ---

/// The window of a plane: its extents, steps, dilation, and the pads before it.
void writeWindow(StepWriter::Config &config, const ConvProblem &p);

// --- pool ---

/// What kernels call the kind of a pool: "pooling_max", "pooling_mean" or "pooling_mean_padded".
llvm::StringRef poolingKind(const Operation &pool);
/// A maximum stays in the elements' type, a mean adds up in the computing type.
Element poolingAccumulator(const Operation &pool);
/// The extents, windows, steps and pads of a pool in a plane.
void writePooling(StepWriter::Config &config, const Operation &pool, const ConvProblem &p);

// --- resize ---

/// Whether dimension d is another one after a resize.
bool isResampled(const Operation &resize, unsigned d);
/// A resize whose resampled extents are known.
bool matchResize(const TacticInput &in, std::string &why);
/// What kernels ask for that mix elements by weights in f32, always inside the image.
bool resamplesInside(const Operation &resize, std::string &why);

/// Which elements along a resampled dimension each output reads, and with what weights: `taps` for
/// each, one after the other. An index of −1 says that the output lies outside.
struct ResizeTable {
  size_t taps = 1;
  std::vector<int64_t> indices;
  std::vector<double> weights;
};
/// What weights are stored as: sums of integers are made in double, where ties are exact.
Element weightsOfResize(const Operation &resize);
ResizeTable resizeTable(const Operation &resize, unsigned d);

// --- gather, pad, shape_of, topk ---

bool matchGather(const TacticInput &in, std::string &why);
struct GatherForm {
  /// Strides over the result's space: of what is picked from (0 along the axis), of the indices.
  Strides from, indices;
  /// The body alone.
  LoopNest nest;
  Dim stride, extent; // of the axis that is picked along
};
GatherForm gatherForm(const GroupForm &form);

/// A pad that repeats, mirrors or continues the tensor.
bool matchBorderPad(const TacticInput &in, std::string &why);
bool matchShapeOf(const TacticInput &in, std::string &why);

/// A space whose dimension `axis` comes last.
struct AxisLast {
  unsigned axis;
  llvm::SmallVector<Dim, 6> others;  // extents but for the axis
  llvm::SmallVector<int, 6> placeOf; // by dimension
  Strides operator()(const Strides &s) const;
};
AxisLast axisLast(Type x, unsigned axis);

} // namespace tenon
