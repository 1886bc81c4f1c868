// Defines what the tactics for sums of 8-bit integers share: contractions as
// convolutions over (n, c, h, w).
#pragma once

#include "codegen/ConvProblem.h"
#include "codegen/GroupForm.h"
#include "codegen/LoopNest.h"

namespace tenon::cpu {

/// A convolution or a matrix product.
struct PairsProblem {
  ConvProblem conv;
  bool matrix = false, transB = false;
  /// Height and width change places: windows along the height only, over images of one column.
  bool upright = false;

  /// Strides of an operand over (n, c, h, w), and where the group's dimensions stand there.
  Strides plane(const Strides &s) const;
  llvm::SmallVector<int, 6> places() const;
};

llvm::Optional<PairsProblem> pairsProblem(const Operation &op, std::string &why);
/// The zero point of x, which has to be one number known at compile time.
llvm::Optional<int64_t> zeroPoint(const GroupForm &form, std::string &why);
/// Of x, over (n, c, h, w).
Strides inputStrides(const GroupForm &form, const PairsProblem &q);
/// Memory on the stack up to this many bytes, in the arena beyond: small enough for any stack, and
/// most layers then take nothing from the arena's largest moment.
constexpr int64_t kStackBytes = 512;

} // namespace tenon::cpu
