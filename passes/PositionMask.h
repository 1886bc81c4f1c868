// Declares the reading of masks that follow from positions alone.
//
//   %b = map { select(n <= m + length, 0, −3.4e38) }, however it is spelled
//
// An element of a mask at query m and key n is what a few comparisons of m, n and extents say:
// `inside` where all of them hold, else `outside`.
#pragma once

#include "ir/Ramps.h"

namespace tenon {

/// base + key · n + query · m.
struct MaskPlace {
  Dim base;
  int64_t key = 0, query = 0;
};

struct PositionMask {
  llvm::SmallVector<MaskPlace, 3> seen; // all of them at least 0: inside; none: everywhere
  double inside = 0, outside = 0;
};

/// What `mask` is for `queries` queries and `keys` keys, which are its last two dimensions or have
/// extent 1 there, with this value `inside`. None where it has another, or follows from anything
/// else.
llvm::Optional<PositionMask> positionMask(Value *mask, Dim queries, Dim keys, double inside = 0);

/// From here down a number that is added to a score leaves nothing of its weight, where the query
/// sees another key whose score is no less by tens of thousands; the lowest f16 is one.
constexpr double kHidingScore = -6e4;

} // namespace tenon
