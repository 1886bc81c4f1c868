// Defines what the tactics of convolutions from patches of the image share
// (codegen/cuda/conv_patch/Tactic.cpp, codegen/cuda/conv_patch/Sm90.cpp).
#pragma once

#include "codegen/cuda/shared/Contraction.h"
#include "runtime/cuda/tile/geometry.h"

#include "llvm/Support/MathExtras.h"

namespace tenon::cuda {

/// Channels of an ungrouped convolution beyond which tiles of contract_mma and contract_wgmma are
/// full.
constexpr int64_t kMostPatchChannels = 7;

/// By how much what was measured of conv_patch_sm80 exceeds its estimate before it is scaled: 1.8
/// to 2.8 times (the layers of codegen/cuda/conv_patch/Sm90.cpp).
constexpr double kPatchShortfall = 2.2;

/// The patch of a tile of outputs, of some groups.
inline patch_geometry patchOf(const ConvProblem &p, int64_t tileH, int64_t tileW, int64_t groups) {
  return {p.channels,  p.kernelH,   p.kernelW, p.strideH, p.strideW,
          p.dilationH, p.dilationW, tileH,     tileW,     groups};
}

/// Whether this is a convolution with windows over planes: of one tap it is a product.
Result<> hasWindows(const Contraction &c);

/// Blocks of a kernel that takes a tile of outputs, `n` filters of each of `groups` groups to each.
int64_t blocksOfTiles(const ConvProblem &p, int64_t tileH, int64_t tileW, int64_t n,
                      int64_t groups);

/// Weights as [groups * filters][kernel_h][taps_w * fold][pixel], zero beyond the kernel and its
/// channels.
void packPatchWeights(const GroupForm &form, const patch_geometry &patch,
                      llvm::SmallVectorImpl<Packing> &out);

} // namespace tenon::cuda
