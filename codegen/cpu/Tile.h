// Defines the register tiles of blocked contractions: mr rows by nr columns of sums that are kept
// in registers (runtime/cpu/conv.h), and an estimate of their speed.
#pragma once

#include "codegen/Target.h"
#include "ir/Dim.h"

#include "llvm/ADT/SmallVector.h"

namespace tenon::cpu {

struct TileShape {
  int64_t mr, nr;
};

/// Tiles worth considering for `rows` by `columns` sums, the rule of thumb in the kernel's head
/// first.
llvm::SmallVector<TileShape, 6> tileShapes(int64_t rows, int64_t columns, unsigned width,
                                           unsigned registers);
/// Those for any number of rows that an open extent takes.
llvm::SmallVector<TileShape, 6> tileShapes(Dim rows, int64_t columns, unsigned width,
                                           unsigned registers);

/// Microseconds of `batches` products of rows by columns over `depth`, with `width` lanes a vector.
double tileCost(const TargetLevel &level, TileShape tile, unsigned width, int64_t rows,
                int64_t columns, double depth, double batches);
/// The same for the most rows, where tiles hang over as much as they do on average: one that only
/// fits the upper bound is no good choice for an open extent.
double tileCost(const TargetLevel &level, TileShape tile, unsigned width, Dim rows, int64_t columns,
                double depth, double batches);

} // namespace tenon::cpu
