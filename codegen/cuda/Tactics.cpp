// Implements the table of CUDA tactics, in order of preference at equal cost.
#include "codegen/cuda/Tactics.h"

namespace tenon {

llvm::ArrayRef<Tactic> cudaTactics() {
  static const Tactic kTable[] = {
      cuda::kDepthwise,
      cuda::kDepthwiseMmaSm80,
      cuda::kGemv,
      cuda::kGemvNarrow,
      cuda::kContractWgmmaSm90a,
      cuda::kContractInt8Sm90a,
      cuda::kContractTf32Sm90a,
      cuda::kContractTf32x3Sm90a,
      cuda::kContractHaloSm90a,
      cuda::kContractClusterSm90a,
      cuda::kContractClusterInt8Sm90a,
      cuda::kContractClusterTf32Sm90a,
      cuda::kContractClusterTf32x3Sm90a,
      cuda::kConvPatchSm90a,
      cuda::kConvPoolSm90a,
      cuda::kConvPatchSm75,
      cuda::kConvPatchSm80,
      cuda::kContractMmaSm75,
      cuda::kContractMmaSm80,
      cuda::kContractInt8Sm75,
      cuda::kContractInt8Sm80,
      cuda::kContractTf32Sm80,
      cuda::kContractTf32x3Sm80,
      cuda::kContractSimt,
      cuda::kConvPatchSimt,
      cuda::kConvWinograd,
      cuda::kContractAny,
      cuda::kAttentionSm80,
      cuda::kPooling,
      cuda::kPoolingAny,
      cuda::kExpandDepthwiseSm80,
      cuda::kSqueezeExcite,
      cuda::kReduce,
      cuda::kFold,
      cuda::kSoftmax,
      cuda::kNormalize,
      cuda::kResize,
      cuda::kResizeAny,
      cuda::kGather,
      cuda::kPadBorder,
      cuda::kTopK,
      cuda::kTopKRows,
      cuda::kTopKSorted,
      cuda::kScatter,
      cuda::kScatterLast,
      cuda::kScatterSorted,
      cuda::kBitcast,
      cuda::kNonZero,
      cuda::kUnique,
      cuda::kNonMaxSuppression,
      cuda::kNonMaxSuppressionSorted,
      cuda::kShapeOf,
      cuda::kMapTransposed,
      cuda::kMap,
  };
  return kTable;
}

llvm::ArrayRef<ScheduleAlias> scheduleAliases() {
  static const ScheduleAlias kTable[] = {
      {"contract_wgmma_sm90a", "halo", "contract_halo_sm90a"},
      {"contract_wgmma_sm90a", "clustered", "contract_cluster_sm90a"},
      {"contract_int8_sm90a", "clustered", "contract_cluster_int8_sm90a"},
      {"contract_tf32_sm90a", "clustered", "contract_cluster_tf32_sm90a"},
      {"contract_tf32x3_sm90a", "clustered", "contract_cluster_tf32x3_sm90a"},
  };
  return kTable;
}

} // namespace tenon
