// Defines when two operations compute the same.
#pragma once

#include "ir/IR.h"

#include "llvm/ADT/STLExtras.h"

namespace tenon {

/// Kind, attributes, result types and regions are equal, region arguments being paired by position;
/// literals compare by content, and operands of which the shape alone is asked for (shape_of) by
/// that. `same` says which other operands are equal.
bool computeSame(const Operation &a, const Operation &b,
                 llvm::function_ref<bool(const Value *, const Value *)> same);

/// Whether what computes `a` does the same as what computes `b`, operation by operation. False
/// where that takes more than `steps` comparisons, or where an operation may give different results
/// for equal operands.
bool sameNumbers(const Value *a, const Value *b, int steps = 256);

} // namespace tenon
