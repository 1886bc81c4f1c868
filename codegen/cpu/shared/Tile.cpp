// Implements the choice of register tiles.
#include "codegen/cpu/shared/Tile.h"

#include "ir/Context.h"

#include "llvm/ADT/STLExtras.h"
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

/// Positive values that an extent takes, evenly spread over the bounds of its symbols; one of a
/// constant.
llvm::SmallVector<int64_t, 8> samples(Dim extent) {
  struct Position {
    Context &context;
    int64_t sample, count;
  } at{*extent.node()->context, 0, extent.isConstant() ? 1 : 8};
  const SymbolLookup value = [](llvm::StringRef symbol, void *user) -> llvm::Optional<int64_t> {
    const Position &p = *static_cast<Position *>(user);
    const Dim d = p.context.symbol(symbol);
    return d.lower() + (d.upper() - d.lower() + 1) * (2 * p.sample + 1) / (2 * p.count);
  };
  llvm::SmallVector<int64_t, 8> values;
  for (; at.sample < at.count; ++at.sample)
    values.push_back(std::max<int64_t>(1, *evaluate(extent, value, &at)));
  return values;
}

} // namespace

llvm::SmallVector<TileShape, 6> tileShapes(int64_t rows, int64_t columns, unsigned width,
                                           unsigned registers) {
  llvm::SmallVector<TileShape, 6> shapes;
  rows = std::max<int64_t>(rows, 1);
  const auto needed = int64_t(llvm::divideCeil(std::max<int64_t>(columns, 1), width));
  if (rows == 1) {
    // Bound by reading the weights; several sums hide the latency of adding.
    const int64_t most = std::min<int64_t>(needed, registers >= 32 ? 8 : 4);
    shapes.push_back({1, most * int64_t(width)});
    // Fewer are for weights that are packed for several rows elsewhere.
    for (int64_t vectors : {4, 3, 2, 1})
      if (vectors < most)
        shapes.push_back({1, vectors * int64_t(width)});
    return shapes;
  }
  for (int64_t vectors : {2, 3, 4, 1})
    if (vectors <= needed)
      shapes.push_back({evenRows(rows, mostRows(vectors, registers)), vectors * int64_t(width)});
  return shapes;
}

llvm::SmallVector<TileShape, 6> tileShapes(Dim rows, int64_t columns, unsigned width,
                                           unsigned registers) {
  // The rule of thumb for the upper bound comes first. Tiles of single rows read all weights for
  // each, so they are for extents that are never more.
  llvm::SmallVector<TileShape, 6> shapes = tileShapes(rows.upper(), columns, width, registers);
  if (!rows.isConstant())
    for (int64_t n : samples(rows))
      for (const TileShape &t : tileShapes(std::max<int64_t>(n, 2), columns, width, registers))
        if (!llvm::any_of(shapes, [&](TileShape s) { return s.mr == t.mr && s.nr == t.nr; }))
          shapes.push_back(t);
  return shapes;
}

llvm::ArrayRef<Field<TileSchedule>> TileSchedule::fields() {
  static const Field<TileSchedule> kFields[] = {
      {"mr", &TileSchedule::mr, between(1, 32)},
      {"nr", &TileSchedule::nr, between(1, 128)},
  };
  return kFields;
}
llvm::ArrayRef<Field<RowSchedule>> RowSchedule::fields() {
  static const Field<RowSchedule> kFields[] = {{"mr", &RowSchedule::mr, between(1, 32)}};
  return kFields;
}

Result<> fitsRegisters(const ScheduleText &schedule, const TargetLevel &level, TileShape tile,
                       int64_t width, int64_t others) {
  const int64_t sums = tile.mr * int64_t(llvm::divideCeil(tile.nr, width)),
                room = std::max<int64_t>(1, int64_t(level.simdRegisters) - others);
  if (sums <= room)
    return Accepted{};
  Refusal refusal =
      impossible(schedule, "its sums take " + std::to_string(sums) +
                               " registers, there is room for " + std::to_string(room));
  refusal.remedy = "give it fewer rows (mr)";
  return refusal;
}

/// tileCost() where the tiles compute `rowsPadded` rows.
static double paddedCost(const TargetLevel &level, TileShape tile, unsigned width,
                         double rowsPadded, int64_t columns, double depth, double batches) {
  const double mr = double(tile.mr), vectors = double(tile.nr) / width;
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

double tileCost(const TargetLevel &level, TileShape tile, unsigned width, int64_t rows,
                int64_t columns, double depth, double batches) {
  return paddedCost(level, tile, width, double(llvm::divideCeil(rows, tile.mr) * tile.mr), columns,
                    depth, batches);
}

double tileCost(const TargetLevel &level, TileShape tile, unsigned width, Dim rows, int64_t columns,
                double depth, double batches) {
  if (rows.isConstant())
    return tileCost(level, tile, width, rows.constant(), columns, depth, batches);
  double cost = 0, total = 0;
  for (int64_t n : samples(rows)) {
    // The last tile is half a one where that is enough.
    const int64_t half = tile.mr < 3 ? tile.mr : (tile.mr + 1) / 2, rest = n % tile.mr;
    const int64_t last = rest == 0 ? 0 : rest <= half ? half : tile.mr;
    cost += paddedCost(level, tile, width, double(n - rest + last), columns, depth, batches);
    total += double(n);
  }
  return cost / total * double(rows.upper());
}

} // namespace tenon::cpu
