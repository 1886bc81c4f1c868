// Defines ConvProblem: a convolution or pooling window in the 2-d form that kernels take, whatever
// its spatial rank (1-d problems have height 1).
#pragma once

#include "codegen/GroupForm.h"

namespace tenon {

struct ConvProblem {
  Dim batch, inHeight, inWidth, outHeight, outWidth;
  int64_t groups = 1, channels = 0, filters = 0; // of one group; conv only
  int64_t kernelH = 1, kernelW = 1, strideH = 1, strideW = 1, dilationH = 1, dilationW = 1;
  int64_t padTop = 0, padLeft = 0;
  int spatialRank = 2;

  bool isDepthwise() const { return groups > 1 && channels == 1; }
  bool isPointwise() const {
    return kernelH == 1 && kernelW == 1 && strideH == 1 && strideW == 1 && padTop == 0 &&
           padLeft == 0 && outHeight == inHeight && outWidth == inWidth;
  }
};

/// Reads a conv or pool op with one or two spatial dimensions; None with the reason otherwise.
llvm::Optional<ConvProblem> convProblem(const Operation &op, std::string &why);

/// Strides over (n, c, h, w) of strides over (n, c, [h,] w).
Strides inPlane(const Strides &s, const ConvProblem &p);

/// True when height and width may be walked as one dimension by these strides.
bool mergesPlane(const Strides &plane, Dim width);

} // namespace tenon
