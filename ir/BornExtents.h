// Declares extents that are born in a graph: symbols that an operation gives a value when it runs.
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

/// Whether no input of the graph brings the symbol.
bool isBorn(Graph &graph, Dim symbol);
/// The symbols that are born in `op` or in its regions.
llvm::SmallVector<Dim, 2> bornSymbols(const Operation &op);
/// Whether an extent follows from one of `symbols`.
bool mentions(Dim d, llvm::ArrayRef<Dim> symbols);
/// Whether an extent of the graph outside of `op` follows from one of `symbols`.
bool isMentioned(llvm::ArrayRef<Dim> symbols, const Operation &op);

/// Removes result `i` of an `if`, which has no uses, and what both regions yield for it.
void eraseIfResult(Operation &op, unsigned i);

} // namespace tenon
