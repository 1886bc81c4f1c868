// Tests the choice of register tiles for extents that are known only at run time: what an extent
// takes on average decides, not its upper bound.
#include "codegen/cpu/shared/Tile.h"
#include "ir/Context.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <gtest/gtest.h>

using namespace tenon;
using namespace tenon::cpu;

namespace {

constexpr unsigned kWidth = 16, kRegisters = 32;
constexpr int64_t kColumns = 32;

double costOf(TileShape t, Dim rows) {
  const auto levels = allTargetLevels();
  const TargetLevel *level =
      *llvm::find_if(levels, [](const TargetLevel *l) { return l->name == "x86-64-v4"; });
  return tileCost(*level, t, kWidth, rows, kColumns, 576, 1);
}

TileShape cheapest(Dim rows) {
  const auto shapes = tileShapes(rows, kColumns, kWidth, kRegisters);
  return *std::min_element(shapes.begin(), shapes.end(), [&](TileShape a, TileShape b) {
    return costOf(a, rows) < costOf(b, rows);
  });
}

TEST(Tile, OfAConstantIsThatOfItsNumber) {
  Context context;
  for (int64_t rows : {1, 7, 40, 56, 3136}) {
    const auto open = tileShapes(context.dim(rows), kColumns, kWidth, kRegisters),
               plain = tileShapes(rows, kColumns, kWidth, kRegisters);
    ASSERT_EQ(open.size(), plain.size());
    for (size_t i = 0; i < open.size(); ++i) {
      EXPECT_EQ(open[i].mr, plain[i].mr);
      EXPECT_EQ(open[i].nr, plain[i].nr);
    }
  }
}

/// Widths of 10, 20, 30 and 40: tiles of 14 fit 40 well, tiles of 10 all of them.
TEST(Tile, OfAnOpenExtentFitsAllOfItsValues) {
  Context context;
  const Dim open = context.symbol("w", 1, 4) * 10;
  EXPECT_EQ(cheapest(context.dim(40)).mr, 14);
  EXPECT_EQ(cheapest(open).mr, 10);
}

/// The last tile of an open row may be half a one: of 14 columns 7 are computed for 7, and all
/// for 8.
TEST(Tile, CountsHalfATileAtTheEnd) {
  Context context;
  const Dim fits = context.symbol("a", 7, 7), over = context.symbol("b", 8, 8);
  const TileShape tile{14, 32};
  EXPECT_LT(costOf(tile, fits) / double(fits.upper()), costOf(tile, over) / double(over.upper()));
}

} // namespace
