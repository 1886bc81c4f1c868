// Declares what branches share beyond their table: extents that follow from the branch that ran.
#pragma once

#include "ir/IR.h"

namespace tenon {

/// An extent of an `if`'s results that is born there.
struct BornExtent {
  Dim symbol;
  Dim yielded[2]; // by the first region and the second
};
/// Those of `op` in order, each symbol once; none when `op` is no `if`.
llvm::SmallVector<BornExtent, 2> bornExtents(const Operation &op);

/// Removes result `i` of an `if`, which has no uses, and what both regions yield for it.
void eraseIfResult(Operation &op, unsigned i);

} // namespace tenon
