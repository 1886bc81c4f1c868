// Defines the work of a group: operations and bytes, for cost models, headings and reports.
#pragma once

#include "ir/IR.h"

#include <string>

namespace tenon {

struct Work {
  double flops = 0;  // 2 per multiply-add of contractions, 1 per scalar function elsewhere
  int64_t bytes = 0; // each operand read once, each result written once, at upper bounds
};
Work workOf(const Operation &group);
/// Queries times keys of one head of an attention less what `causal` hides, at upper bounds.
double visibleScores(const Operation &attention);

/// "1.24 G", "873.0 k", "12 ".
std::string formatCount(double n);
/// At most 24 characters of an identifier made from a node name.
std::string sanitizedStem(llvm::StringRef nodeName);

} // namespace tenon
