// Defines ConvProblem: a convolution or pooling window in the form that kernels take, whatever its
// spatial rank: planes (1-d problems have height 1), or volumes where a kernel takes them.
#pragma once

#include "codegen/core/GroupForm.h"

namespace tenon {

struct ConvProblem {
  Dim batch, inHeight, inWidth, outHeight, outWidth;
  int64_t groups = 1, channels = 0, filters = 0; // of one group; conv only
  int64_t kernelH = 1, kernelW = 1, strideH = 1, strideW = 1, dilationH = 1, dilationW = 1;
  int64_t padTop = 0, padLeft = 0;
  int spatialRank = 2;
  Dim inDepth, outDepth; // isVolume()
  int64_t kernelD = 1, strideD = 1, dilationD = 1, padFront = 0;

  bool isVolume() const { return spatialRank == 3; }
  bool isDepthwise() const { return groups > 1 && channels == 1; }
  bool isPointwise() const {
    return taps() == 1 && strideD == 1 && strideH == 1 && strideW == 1 && padFront == 0 &&
           padTop == 0 && padLeft == 0 && outHeight == inHeight && outWidth == inWidth &&
           (!isVolume() || outDepth == inDepth);
  }
  int64_t taps() const { return kernelD * kernelH * kernelW; }
};

/// Reads a conv or pool op with one spatial dimension, or up to `most` (2 or 3); None with the
/// reason otherwise.
Result<ConvProblem> convProblem(const Operation &op, int most = 2);

/// Strides over (n, c, [d,] h, w) of strides over (n, c, [[d,] h,] w).
Strides inPlane(const Strides &s, const ConvProblem &p);

/// True when height and width may be walked as one dimension by these strides.
bool mergesPlane(const Strides &plane, Dim width);

} // namespace tenon
