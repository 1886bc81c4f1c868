// Implements the table of CUDA tactics, in order of preference at equal cost.
#include "codegen/cuda/Tactics.h"

#include "codegen/cuda/Family.h"

namespace tenon::cuda {

llvm::ArrayRef<const Tactic *> tactics() {
  static const Tactic *const kTable[] = {
      &kDepthwise,
      &kDepthwiseMmaSm80,
      &kGemv,
      &kGemvNarrow,
      &kContractWgmmaSm90a,
      &kContractInt8Sm90a,
      &kContractTf32Sm90a,
      &kContractTf32x3Sm90a,
      &kContractHaloSm90a,
      &kContractClusterSm90a,
      &kContractClusterInt8Sm90a,
      &kContractClusterTf32Sm90a,
      &kContractClusterTf32x3Sm90a,
      &kConvPatchSm90a,
      &kConvPoolSm90a,
      &kConvPatchSm75,
      &kConvPatchSm80,
      &kContractMmaSm75,
      &kContractMmaSm80,
      &kContractInt8Sm75,
      &kContractInt8Sm80,
      &kContractTf32Sm80,
      &kContractTf32x3Sm80,
      &kContractSimt,
      &kConvPatchSimt,
      &kConvWinograd,
      &kContractAny,
      &kAttentionSm90a,
      &kAttentionSm80,
      &kPooling,
      &kPoolingAny,
      &kExpandDepthwiseSm80,
      &kSqueezeExcite,
      &kReduce,
      &kFold,
      &kScan,
      &kSoftmax,
      &kNormalize,
      &kResize,
      &kResizeAny,
      &kGather,
      &kPadBorder,
      &kTopK,
      &kTopKRows,
      &kTopKSorted,
      &kScatter,
      &kScatterLast,
      &kScatterSorted,
      &kBitcast,
      &kNonZero,
      &kUnique,
      &kNonMaxSuppression,
      &kNonMaxSuppressionSorted,
      &kShapeOf,
      &kMapTransposed,
      &kMap,
  };
  return kTable;
}

} // namespace tenon::cuda
