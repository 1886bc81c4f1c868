// Defines what the tactic `squeeze_excite` reads of a chain (Tactic.cpp).
#pragma once

#include "codegen/cuda/shared/Contraction.h"

namespace tenon::cuda {

/// A chain as the kernel takes it.
struct Gates {
  GroupQuery in;
  ContractionProblem first, second; // products
  /// What the gates make of the image; its body has them as the anchor's result. None: they are the
  /// result.
  llvm::Optional<ScalarProgram> gated = {};
  double scale = 1; // of sums over pixels
  /// What the kernel adds up: elements over a space of images, pixels and channels.
  ScalarProgram x = {};
  unsigned image = 0, channel = 1;
  llvm::SmallVector<unsigned, 4> pixels = {};

  Dim images() const { return rowsOf(second.c); }
  int64_t channels() const { return first.c.depth(); }
  int64_t hidden() const { return first.c.columns(); }
  int64_t outputs() const { return second.c.columns(); }
  int64_t pixelCount() const {
    int64_t n = 1;
    for (unsigned d : pixels)
      n *= std::max<int64_t>(1, x.space[d].upper());
    return n;
  }
};

Result<Gates> readGates(const GroupQuery &in);

} // namespace tenon::cuda
