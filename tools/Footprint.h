// Defines the footprint of a model on a microcontroller: flash that its code takes and the time
// that each layer is estimated to take.
#pragma once

#include "compiler/Compiler.h"
#include "tools/ToolHost.h"

#include <map>

namespace tenon {

struct Footprint {
  /// Bytes of code and its constants by step; layers that are alike share what the first one has.
  std::map<int, int64_t> code;
  /// Code of no single step: the interface and what the compiler makes of the model's sequence.
  int64_t rest = 0;
  /// Measured in the cross compiler's output; otherwise an estimate.
  bool measured = false;
  /// Estimated processor cycles by step; empty where the clock is unknown.
  std::map<int, double> cycles;

  int64_t codeBytes() const;
  double totalCycles() const;
};

/// Of a scheduled module for one microcontroller. Builds what `compile` would write where the
/// target's compiler is here; false after an error.
bool takeFootprint(ToolHost &host, Compiler &compiler, const Target &target,
                   const CodeOptions &code, Footprint &out);

} // namespace tenon
