// Defines the constants of the prices of normalisations.
#pragma once

#include "codegen/cuda/shared/RowGroup.h"

namespace tenon::cuda {

/// Of two launches over the pixels of an image, in microseconds, but where something else stands.
struct ChannelsCosts {
  double launch; // the second
  double block;  // the starts of both launches' blocks, and what they merge
  double fetch;  // a round of loads under way together
  double port;   // KB a microsecond that a multiprocessor reads and writes
  double memory; // of what the machine's memory moves
  double part;   // what a block reads for each 32 blocks of an image
};

struct NormalizeCosts {
  RowCosts rows;
  ChannelsCosts channels;
  static constexpr llvm::StringLiteral family = "normalize";
};
constexpr NormalizeCosts kNormalizeCosts = {
#include "codegen/cuda/normalize/costs.inc"
};

} // namespace tenon::cuda
