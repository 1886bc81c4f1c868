// Implements the choice of register tiles.
#include "codegen/cpu/Tile.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>

namespace tenon::cpu {
namespace {

/// The most rows that leave registers for a row of weights and the value that is broadcast.
int64_t mostRows(int64_t vectors, int64_t registers) {
  return std::max<int64_t>(1, (registers - vectors - (vectors == 1 ? 3 : 1)) / vectors);
}

/// As few rows as still need no further tile, so that the last one is not nearly empty.
int64_t evenRows(int64_t rows, int64_t most) {
  return llvm::divideCeil(rows, llvm::divideCeil(rows, most));
}

} // namespace

llvm::SmallVector<TileShape, 6> tileShapes(int64_t rows, int64_t columns, unsigned width,
                                           unsigned registers) {
  llvm::SmallVector<TileShape, 6> shapes;
  rows = std::max<int64_t>(rows, 1);
  const auto needed = int64_t(llvm::divideCeil(std::max<int64_t>(columns, 1), width));
  if (rows == 1) {
    // Bound by reading the weights; several sums hide the latency of adding.
    shapes.push_back({1, int64_t(std::min<int64_t>(needed, registers >= 32 ? 8 : 4)) * width});
    return shapes;
  }
  for (int64_t vectors : {2, 3, 4, 1})
    if (vectors <= needed)
      shapes.push_back({evenRows(rows, mostRows(vectors, registers)), vectors * int64_t(width)});
  return shapes;
}

double tileCost(const TargetLevel &level, TileShape tile, unsigned width, int64_t rows,
                int64_t columns, double depth, double batches) {
  const double mr = double(tile.mr), vectors = double(tile.nr) / width;
  const double rowsPadded = double(llvm::divideCeil(rows, tile.mr)) * mr;
  const double columnsPadded = double(llvm::divideCeil(columns, width)) * width;
  // For mr · vectors multiply-adds a tile loads `vectors` vectors of weights, often from the second
  // cache, and broadcasts mr values from the first; few sums leave the latency of adding open.
  // The weights are fitted to bench/kernels.cpp.
  const double work = mr * vectors;
  const double efficiency = work / (work + 0.1 * mr + 0.75 * vectors) * std::min(1.0, work / 8);
  const double peak = level.peakGflops * 1e3 * width / std::max(1u, level.simdWidth);
  const double macs = batches * rowsPadded * columnsPadded * depth;
  // Every block of columns reads all rows again, from some cache.
  const double blocks = double(llvm::divideCeil(columns, tile.nr));
  const double bytes = 4 * blocks * batches * rowsPadded * depth;
  return 2 * macs / (peak * efficiency) + bytes / (level.bandwidthGBs * 4e3);
}

} // namespace tenon::cpu
