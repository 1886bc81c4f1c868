// Defines how the nodes of a scalar program are spelled in C++ for a target: one by one as the
// table of scalars says, or several as one function where the target has an instruction for them.
#pragma once

#include "codegen/core/GroupForm.h"
#include "codegen/core/Target.h"

#include <string>

namespace tenon {

/// The value of a node: a pattern ($0, $1, ...; `$T`, `$S` and `$A` as in ir/Scalars.def) and the
/// nodes that it names, which may be operands of operands.
struct ScalarSpelling {
  std::string pattern;
  llvm::SmallVector<unsigned, 3> operands;
};

/// Spells the functions of a program.
class ScalarSpeller {
public:
  /// Constants are members of the body, which layers share, where `sharedConstants`.
  ScalarSpeller(const ScalarProgram &program, const TargetLevel &level, bool sharedConstants);

  ScalarSpelling operator()(unsigned node) const;

private:
  const ScalarNode &node(unsigned number) const { return program_.nodes[number]; }
  /// An operand that is a function of its own and has no other user.
  const ScalarNode *onlyUse(unsigned number, Op kind) const;
  llvm::Optional<int64_t> constant(unsigned number) const;
  bool clampsTo(const ScalarNode &n, int64_t low, int64_t high) const;
  void findNarrow();

  llvm::Optional<ScalarSpelling> positiveClamp(const ScalarNode &n) const;
  llvm::Optional<ScalarSpelling> roundedByte(const ScalarNode &n) const;
  llvm::Optional<ScalarSpelling> highProductAndSum(const ScalarNode &n) const;
  llvm::Optional<ScalarSpelling> shiftAndSaturate(const ScalarNode &n) const;

  const ScalarProgram &program_;
  const TargetLevel &level_;
  const bool sharedConstants_;
  std::vector<unsigned> uses_;
  std::vector<bool> narrow_; // what is only stored in 16 bits or fewer, which hide its last bits
};

} // namespace tenon
