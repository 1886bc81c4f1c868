// Defines the schedules of contractions by warp-wide mma instructions (contract_mma, contract_int8,
// contract_tf32): tiles of blocks and of warps, as contract_mma_kernel has them.
#pragma once

#include "codegen/cuda/shared/TileCosts.h"
#include "runtime/cuda/contract_mma/geometry.h"

namespace tenon::cuda {

struct MmaSchedule : SplitTiles {
  static llvm::ArrayRef<Field<MmaSchedule>> fields() {
    static const Field<MmaSchedule> kFields[] = {
        {"tile_m", &MmaSchedule::tileM, oneOf(16, 32, 64, 128, 256)},
        {"tile_n", &MmaSchedule::tileN, oneOf(16, 32, 64, 128, 256)},
        {"tile_k", &MmaSchedule::tileK, oneOf(32, 64, 128, 256)},
        {"warp_m", &MmaSchedule::partM, oneOf(16, 32, 64)},
        {"warp_n", &MmaSchedule::partN, oneOf(16, 32, 64)},
        {"stages", &MmaSchedule::stages, between(2, 8)},
        {"splits", &MmaSchedule::splits, oneOf(1, 2, 4, 8, 16)},
        {"intra_block_split_k", &MmaSchedule::intraBlockSplitK, oneOf(1, 2, 4), llvm::None,
         "teams"},
    };
    return kFields;
  }

  /// Of a block, for elements of as many bytes.
  int64_t sharedBytes(const Contraction &c, int64_t elementBytes) const {
    return contract_mma_geometry{tileM,
                                 tileN,
                                 tileK,
                                 partM,
                                 partN,
                                 stages,
                                 intraBlockSplitK,
                                 elementBytes,
                                 !c.isPacked && elementBytes == 4}
        .shared_bytes(c.stagedBytes);
  }
};

} // namespace tenon::cuda
