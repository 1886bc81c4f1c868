// Defines how tactics of C++ and CUDA read a resize: which dimensions change, and which elements
// each output adds up. Tables say it; the compiler computes those of known extents, and the
// generated code, in scratch, those of extents that are known only at run time.
#pragma once

#include "codegen/core/Tactic.h"
#include "codegen/emit/StepWriter.h"

namespace tenon {

/// Whether dimension d is another one after a resize.
bool isResampled(const Operation &resize, unsigned d);
/// A resize whose resampled dimensions have as many taps for every extent.
Result<> matchResize(const GroupQuery &in);
/// What kernels ask for that mix elements by weights in f32, always inside the image.
Result<> resamplesInside(const Operation &resize);

/// Which elements along a resampled dimension each output reads, and with what weights: `taps` for
/// each, one after the other. An index of −1 says that the output lies outside.
struct ResizeTable {
  size_t taps = 1;
  std::vector<int64_t> indices;
  std::vector<double> weights;
};

/// What weights are stored as: sums of integers are made in double, where ties are exact.
Element weightsOfResize(const Operation &resize);
/// The parameters of a resize_table of that many taps.
std::string tableType(const Operation &resize, size_t taps);

/// Whether the extents of a resampled dimension are known when compiling.
bool hasKnownTable(const Operation &resize, unsigned d);
ResizeTable resizeTable(const Operation &resize, unsigned d);

/// Scratch of the tables that are filled at run time.
int64_t resizeScratch(const Operation &resize);

/// A table that is filled at run time: an expression of the axis (common/resize_axis.h), and where
/// in scratch the indices and weights lie.
struct OpenTable {
  size_t taps;
  std::string axis, indices, weights;
};
OpenTable openTable(const Operation &resize, unsigned d, const StepWriter &out);

} // namespace tenon
