// Defines float and 8-bit convolutions as the tactics of this family see them, and the call of a
// kernel, which they write alike.
#pragma once

#include "codegen/core/ConvProblem.h"
#include "codegen/core/TacticOf.h"
#include "codegen/cpu/shared/Operands.h"

#include <algorithm>

namespace tenon::cpu {

struct WindowProblem {
  GroupQuery in;
  ConvProblem conv;
  unsigned tensor; // the input of x's prologue that is x
  Strides x;       // of it, over (n, c, [d,] h, w)

  Element sums() const { return accumulatorOf(in.form.anchor->result()->type().element()); }
  unsigned width() const { return lanesFor(in.level, sums()); }
  /// Columns that one row of tiles covers.
  Dim columns() const { return isFlat() ? conv.outHeight * conv.outWidth : conv.outWidth; }
  /// Rows of them in an image.
  double rows() const {
    const double planes = conv.isVolume() ? double(conv.outDepth.upper()) : 1;
    return isFlat() ? 1 : planes * double(conv.outHeight.upper());
  }
  int64_t columnsOfImage() const { return std::max<int64_t>(1, conv.outWidth.upper()); }
  /// Whether the plane may be one long row.
  bool isFlat() const { return conv.isPointwise() && !conv.isVolume(); }
  /// Microseconds in which the group's bytes move, beside the arithmetic.
  double moving() const;
};

/// As few of `columns` as still need no further tile, of `most` at most.
int64_t evenColumns(int64_t columns, int64_t most);

/// A convolution over up to `most` spatial dimensions with constant weights.
Result<WindowProblem> windowProblem(const GroupQuery &in, Factors factors, int most);

/// Packs weights by `block` filters (0: one after the other), channels before the taps or behind.
void packWeights(const WindowProblem &p, int64_t block, bool channelsFirst,
                 llvm::SmallVectorImpl<Packing> &out);

/// How a kernel differs from the others where it is called.
struct WindowCall {
  llvm::StringRef kernel; // and its header
  KeyValues schedule;
  bool depthwise = false;
  bool dot = false;
  bool pixelsOuter = false;
  unsigned lanes = 0; // of its vectors; 0: as many as they have
  bool rowRuns = false;
};

/// Writes the window, the views and the call.
void emitWindow(const WindowProblem &problem, const WindowCall &call, StepWriter &out);

} // namespace tenon::cpu
