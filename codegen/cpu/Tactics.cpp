// Implements the table of C++ tactics, in order of preference at equal cost.
#include "codegen/cpu/Tactics.h"

#include "codegen/cpu/Family.h"

namespace tenon::cpu {

llvm::ArrayRef<const Tactic *> tactics() {
  static const Tactic *const kTable[] = {
      &kConvShared,
      &kDepthwiseShared,
      &kConvPairs,
      &kDepthwisePairs,
      &kConvQuads,
      &kDepthwiseQuads,
      &kConvBytes,
      &kDepthwiseBytes,
      &kConv,
      &kConvInt8,
      &kConvDot,
      &kDepthwise,
      &kConvDirect,
      &kMatMul,
      &kMatMulInt8,
      &kMatMulDynamic,
      &kMatMulDirect,
      &kMatMulNarrow,
      &kPooling,
      &kPoolingDirect,
      &kReduce,
      &kFold,
      &kScan,
      &kAttention,
      &kSoftmax,
      &kSoftmaxBytes,
      &kNormalize,
      &kResize,
      &kResizeDirect,
      &kGather,
      &kScatter,
      &kPadBorder,
      &kNonZero,
      &kTopK,
      &kNonMaxSuppression,
      &kUnique,
      &kBitcast,
      &kShapeOf,
      &kTextMap,
      &kTextSplit,
      &kUser,
      &kMap,
  };
  return kTable;
}

} // namespace tenon::cpu
