// Defines what tiles of a contraction by mma instructions or on CUDA cores cost: tables of the
// tactics contract_mma, contract_int8, contract_tf32, contract_simt and conv_winograd.
#pragma once

#include "codegen/cuda/shared/Contraction.h"

#include <algorithm>
#include <cmath>

namespace tenon::cuda {

/// Microseconds of each step along K, while the blocks on a multiprocessor are few (`latency`) and
/// for each of many (`throughput`); of each block, epilogue and the pipeline's filling included;
/// where K is split, of the tile and of each part.
struct TileCosts {
  double latency, throughput, block, split, perPart;

  double parts(int64_t splits) const { return splits > 1 ? split + perPart * double(splits) : 0; }
};

/// Tiles, with as many buffers as they are measured with. `together` blocks fit on a
/// multiprocessor.
struct TileRow {
  ContractionTiles shape;
  int64_t intraBlockSplitK;
  int64_t together;

  SplitTiles tiles(int64_t splits) const { return {shape, splits, intraBlockSplitK}; }
};

/// A row and what its tiles cost.
struct TilePrice {
  int64_t together;
  const TileCosts &costs;

  /// A step of `each` blocks of a multiprocessor: rounds of those that share it, the last of fewer.
  double step(double each) const {
    const auto most = double(together);
    const double rounds = std::floor(each / most), rest = each - rounds * most;
    return rounds * std::max(costs.latency, most * costs.throughput) +
           (rest > 0 ? std::max(costs.latency, rest * costs.throughput) : 0);
  }
  /// All but the steps of as many blocks; `factor`: of what follows the sums.
  double blocks(double each, double factor = 1) const {
    return costs.block * factor * std::ceil(each / double(together));
  }
  /// Blocks of a multiprocessor that has `share` of them on the average: where several fit, some
  /// get more than their share.
  double crowded(double share) const {
    return std::ceil(together == 1 ? share : 1.2 * share + 0.3 * std::min(1.0, share));
  }
};

/// That of a schedule's tiles; `costs`: of all rows.
inline TilePrice priceOf(llvm::ArrayRef<TileRow> rows, const TileCosts *costs,
                         const SplitTiles &s) {
  const TileRow *row = llvm::find_if(rows, [&](const TileRow &r) {
    return r.shape.tileM == s.tileM && r.shape.tileN == s.tileN && r.shape.tileK == s.tileK &&
           r.shape.partM == s.partM && r.shape.partN == s.partN &&
           r.intraBlockSplitK == s.intraBlockSplitK;
  });
  return {row->together, costs[row - rows.begin()]};
}

/// Steps along K of a part of it.
inline double stepsOf(int64_t depth, int64_t tileK, int64_t splits) {
  return std::ceil(double(ceilDiv(depth, tileK)) / double(splits));
}

/// The rest of a launch in a graph of such kernels.
constexpr double kTileLaunch = 1.0;

/// How long a step takes beside an H200, by the Tensor Cores of a multiprocessor. Hopper's reach
/// 0.6 of their peak by mma instructions, others all of it. Unmeasured.
inline double slowdownOfMma(const TargetLevel &level) {
  constexpr double kMeasured = 0.6 * 743 / 132;
  const double share = level.sm == 90 ? 0.6 : 1;
  return kMeasured / (share * level.tensorTflops / level.multiprocessors);
}
/// And by its CUDA cores.
inline double slowdownOfCores(const TargetLevel &level) {
  constexpr double kMeasured = 51e3 / 132; // GFLOP/s of a multiprocessor
  return std::max(1.0, kMeasured / (level.peakGflops / level.multiprocessors));
}

/// Refused where a schedule's tiles are none of `rows`.
template <class T>
Result<> hasTilesOf(llvm::ArrayRef<TileRow> rows, const typename T::Schedule &s) {
  std::vector<typename T::Schedule> all;
  for (const TileRow &row : rows) {
    all.push_back({row.tiles(s.splits)});
    all.back().stages = s.stages;
  }
  return isAmong<T>(s, all);
}

/// Refused where a block has less shared memory, or a grid no room for the parts of all slices.
template <class T>
Result<> hasRoom(const ContractionProblem &p, const typename T::Schedule &s, int64_t sharedBytes) {
  constexpr int64_t kMostAlongZ = 65535;
  if (auto fits = fitsShared(p.in.level, printSchedule(T::id, s), sharedBytes); !fits)
    return fits;
  if (s.splits > 1 && p.c.slices() * s.splits > kMostAlongZ)
    return impossible<T>(s, std::to_string(p.c.slices()) + " products in so many parts are more "
                                                           "than a grid has room for");
  return Accepted{};
}

/// Refused where weights cannot be packed in blocks of as many columns.
template <class T> Result<> isPackedBy(const Contraction &c, const typename T::Schedule &s) {
  if (c.isPacked && !packsIn(c, s.tileN))
    return impossible<T>(s, "tiles would straddle groups of " + std::to_string(c.conv.filters) +
                                " filters");
  return Accepted{};
}

} // namespace tenon::cuda
