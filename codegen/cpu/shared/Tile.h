// Defines the register tiles of blocked contractions: mr rows by nr columns of sums that are kept
// in registers (runtime/cpu/conv.h), and an estimate of their speed.
#pragma once

#include "codegen/core/TacticOf.h"
#include "ir/Dim.h"

#include "llvm/ADT/SmallVector.h"

namespace tenon::cpu {

struct TileShape {
  int64_t mr, nr;
};

/// The schedule of a tactic that has such a tile.
struct TileSchedule : TileShape {
  static llvm::ArrayRef<Field<TileSchedule>> fields();
};
/// The schedule of a tactic whose tile is a vector wide.
struct RowSchedule {
  int64_t mr;
  static llvm::ArrayRef<Field<RowSchedule>> fields();
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

/// Whether the sums of a tile find room in the registers of which `others` are for operands, as
/// vectors of `width` columns.
Result<> fitsRegisters(const ScheduleText &schedule, const TargetLevel &level, TileShape tile,
                       int64_t width, int64_t others);
/// What the tactics whose columns are whole vectors say of a tile.
template <class T>
Result<> isWholeTile(const TileSchedule &s, const TargetLevel &level, int64_t width) {
  if (s.nr % width != 0)
    return impossible<T>(s, "nr is no multiple of the " + std::to_string(width) +
                                " elements of a vector");
  return fitsRegisters(printSchedule(T::id, s), level, s, width, 0);
}

} // namespace tenon::cpu
