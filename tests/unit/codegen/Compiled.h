// Defines what the tests of tactics share: a module given as text is compiled to C++, built by the
// system's compilers, run on seeded inputs and compared with the interpreter.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <map>
#include <string>
#include <vector>

namespace tenon::test {

struct CompiledCase {
  /// A module in .tn text at stage imported or optimized. `random<2x3xf32>` stands for a literal
  /// of seeded values, `random<2x3xi64: 0..4>` for one with integers of that range.
  std::string text;
  /// Passes that form groups.
  std::string passes = "isolate";
  /// The tactics that must have been chosen, in order of the groups; empty: any.
  std::vector<std::string> tactics;
  /// Values of run-time dimensions; the upper bound where none is given.
  std::map<std::string, int64_t> dims;
  /// Range of random integer inputs.
  int64_t lowest = -100, highest = 100;
  /// Allowed difference relative to the largest value of each float output.
  double tolerance = 1e-5;
  std::vector<std::string> targets = {"cpu:generic", "cpu:native"};
};

/// Compiles, runs and compares; failures are reported to GoogleTest.
void check(const CompiledCase &c);
/// The same for text that needs one group of `tactic`.
void check(llvm::StringRef tactic, llvm::StringRef text);

} // namespace tenon::test
