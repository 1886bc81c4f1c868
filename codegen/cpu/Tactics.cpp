// Implements the table of C++ tactics, in order of preference at equal cost.
#include "codegen/cpu/Tactics.h"

namespace tenon {

llvm::ArrayRef<Tactic> cpuTactics() {
  static const Tactic kTable[] = {
      cpu::kConvShared,   cpu::kDepthwiseShared,
      cpu::kConvPairs,    cpu::kDepthwisePairs,
      cpu::kConvQuads,    cpu::kDepthwiseQuads,
      cpu::kConvBytes,    cpu::kDepthwiseBytes,
      cpu::kConv,         cpu::kConvInt8,
      cpu::kConvDot,      cpu::kDepthwise,
      cpu::kConvDirect,   cpu::kMatMul,
      cpu::kMatMulInt8,   cpu::kMatMulDynamic,
      cpu::kMatMulDirect, cpu::kMatMulNarrow,
      cpu::kPooling,      cpu::kPoolingDirect,
      cpu::kReduce,       cpu::kFold,
      cpu::kAttention,    cpu::kSoftmax,
      cpu::kSoftmaxBytes, cpu::kNormalize,
      cpu::kResize,       cpu::kResizeDirect,
      cpu::kGather,       cpu::kScatter,
      cpu::kPadBorder,    cpu::kNonZero,
      cpu::kTopK,         cpu::kNonMaxSuppression,
      cpu::kUnique,       cpu::kBitcast,
      cpu::kShapeOf,      cpu::kTextMap,
      cpu::kTextSplit,    cpu::kUser,
      cpu::kMap,
  };
  return kTable;
}

} // namespace tenon
