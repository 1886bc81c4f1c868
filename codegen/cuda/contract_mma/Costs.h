// Defines what the tactics of contract_mma have in common beside tiles: the constants of their
// prices.
#pragma once

#include "codegen/cuda/shared/MmaTiles.h"

namespace tenon::cuda {

struct MmaCosts {
  TileCosts halves[13], tf32[7], tf32x3[7]; // of the tactics' rows
  /// Microseconds that moving takes beside what it is estimated to.
  double moving;
  /// What copying A element by element costs a step, as a factor, where no runs of 16 bytes are
  /// neighbours along K; and in depthwise convolutions.
  double single, singleDepthwise;
  /// Of integers over what follows sums of floats.
  double rescaling;

  static constexpr llvm::StringLiteral family = "contract_mma";
};
constexpr MmaCosts kMmaCosts = {
#include "codegen/cuda/contract_mma/costs.inc"
};

} // namespace tenon::cuda
