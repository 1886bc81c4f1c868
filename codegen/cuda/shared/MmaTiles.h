// Defines the schedules of contractions by warp-wide mma instructions (contract_mma, contract_int8,
// contract_tf32): tiles of blocks and of warps, as contract_mma_kernel has them.
#pragma once

#include "codegen/cuda/shared/TileCosts.h"

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
        {"teams", &MmaSchedule::teams, oneOf(1, 2, 4)},
    };
    return kFields;
  }

  /// Of a block, for elements of as many bytes; as contract_mma_kernel counts it.
  int64_t sharedBytes(const Contraction &c, int64_t elementBytes) const {
    // B that is not packed has gaps between rows along N, unless ldmatrix transposes it.
    const int64_t gap = !c.isPacked && elementBytes == 4 ? 8 : 0;
    const int64_t tiles = stages * (tileM + tileN + gap) * tileK * elementBytes,
                  warps = tileM / partM * (tileN / partN) * teams;
    return std::max(
        {tiles + c.stagedBytes, warps * 16 * (partN + 4) * 4, (teams - 1) * tileM * tileN * 4});
  }
};

} // namespace tenon::cuda
