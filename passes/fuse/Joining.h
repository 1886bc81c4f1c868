// Defines Joining: the checks and records that all fusions share, and what several of them ask of
// maps and convolutions.
#pragma once

#include "passes/Pass.h"
#include "passes/fuse/Clusters.h"

namespace tenon {

/// A map that converts floats to wider ones.
bool isWidening(const Operation &op);
/// Whether a convolution's window is one pixel.
bool isPointConv(const Operation &conv);

class Joining {
public:
  Joining(Clusters &clusters, PassContext &context) : context_(context), clusters_(clusters) {}

protected:
  /// Records the rejection and returns false, so that callers can `return reject(…)`.
  bool reject(llvm::StringRef id, const Operation &producer, const Operation &consumer,
              llvm::StringRef reason, int64_t saved);
  /// The checks that all fusions share; asks the controls last. `v`: what producer makes and
  /// consumer reads; cluster `from` becomes part of cluster `into`.
  bool join(llvm::StringRef id, Operation &producer, Operation &consumer, Value *v, unsigned into,
            unsigned from);

  PassContext &context_;
  Clusters &clusters_;
};

} // namespace tenon
