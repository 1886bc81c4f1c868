// Defines the profile of a run as Chrome's trace events, which Perfetto and chrome://tracing show.
#pragma once

#include "codegen/memory/Plan.h"

#include "llvm/Support/raw_ostream.h"

namespace tenon {

/// A step as it was measured.
struct TracedStep {
  int number = 0;
  std::string kernel;
  Location nodes;
  double microseconds = 0, flops = 0;
  int64_t bytes = 0;
};

/// One run: the steps in order, each as long as it was in the mean, one behind the other; below
/// them the bytes of the arena that are alive.
void writeTraceEvents(llvm::raw_ostream &os, llvm::StringRef model, llvm::StringRef target,
                      llvm::ArrayRef<TracedStep> steps, const Plan &plan);

} // namespace tenon
