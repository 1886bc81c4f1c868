// Declares bounds of two symbols together: what a run appends to a cache fits into it, though
// either alone may be as much as that holds.
//
//   symbol past = 0..63
//   symbol count = 1..16
//   sum past + count <= 64
//
// The sum of two symbols is an extent with bounds of its own, as a symbol is. All extents that are
// made of both (ir/DimSum.h) follow from them.
#pragma once

#include "ir/Dim.h"

#include "llvm/ADT/ArrayRef.h"

#include <vector>

namespace tenon {

struct SumBound {
  Dim first, second;
  int64_t upper;
};

/// Keeps the sum of two different symbols to at most `upper`; must happen once both have their
/// bounds, before expressions over them are built.
void boundSum(Dim a, Dim b, int64_t upper);
/// The largest sum of two different symbols.
int64_t upperOfSum(Dim a, Dim b);
/// The pairs of `symbols` whose sums are less than those of their upper bounds, in their order.
std::vector<SumBound> sumsOf(llvm::ArrayRef<Dim> symbols);

} // namespace tenon
