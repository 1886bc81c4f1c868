// What fuse does before it forms clusters: maps read through transposes, readers dequantise for
// themselves, and moved operands of a concat become maps that write it. Also what it shares with
// the forming: the record of decisions.
#pragma once

#include "passes/Pass.h"

#include "ir/IR.h"

namespace tenon {

/// A map that widens stored integers: it belongs to the readers, so that the narrow form is what
/// travels through memory.
bool widens(const Operation &op);

/// Keeps a decision for --report=fusion: `saved` bytes of traffic, and why not, if not.
void recordFusion(PassContext &context, bool accepted, llvm::StringRef id,
                  const Operation &producer, const Operation &consumer, llvm::StringRef reason,
                  int64_t saved);

/// Patterns fuse.transpose-read, fuse.duplicate and fuse.concat-copy. True when something changed.
bool prepareFusion(Region &region, PassContext &context);

} // namespace tenon
