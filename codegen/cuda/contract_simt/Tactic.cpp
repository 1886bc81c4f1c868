// Defines the tactic `contract_simt`: true fp32 convolutions and matrix products on CUDA cores
// (runtime/cuda/contract_simt/kernel.cuh).
#include "codegen/core/TacticOf.h"
#include "codegen/core/Work.h"
#include "codegen/cuda/shared/TileCosts.h"
#include "runtime/cuda/contract_simt/geometry.h"

namespace tenon::cuda {
namespace {

struct SimtSchedule : SplitTiles {
  static llvm::ArrayRef<Field<SimtSchedule>> fields() {
    static const Field<SimtSchedule> kFields[] = {
        {"tile_m", &SimtSchedule::tileM, oneOf(16, 32, 64, 128)},
        {"tile_n", &SimtSchedule::tileN, oneOf(16, 32, 48, 64, 96, 128)},
        {"tile_k", &SimtSchedule::tileK, oneOf(16, 32, 64)},
        {"thread_m", &SimtSchedule::partM, oneOf(2, 4, 8)},
        {"thread_n", &SimtSchedule::partN, oneOf(4, 8)},
        {"stages", &SimtSchedule::stages, between(2, 8)},
        {"splits", &SimtSchedule::splits, oneOf(1, 2, 4, 8, 16)},
        {"intra_block_split_k", &SimtSchedule::intraBlockSplitK, oneOf(1, 2, 4), llvm::None,
         "teams"},
    };
    return kFields;
  }

  contract_simt_geometry geometry() const {
    return {tileM, tileN, tileK, partM, partN, stages, intraBlockSplitK};
  }
};

constexpr TileRow kTiles[] = {
    // tile_m, tile_n, tile_k, thread_m, thread_n, stages
    {{128, 128, 16, 8, 8, 3}, 1, 1}, {{128, 96, 32, 8, 8, 3}, 2, 1}, {{64, 128, 16, 8, 8, 3}, 1, 5},
    {{128, 64, 16, 8, 8, 3}, 1, 5},  {{64, 96, 32, 8, 8, 3}, 4, 1},  {{64, 64, 32, 8, 8, 3}, 4, 1},
    {{64, 64, 32, 8, 4, 3}, 2, 3},   {{64, 48, 32, 8, 4, 4}, 4, 1},  {{32, 48, 64, 4, 4, 3}, 4, 1},
    {{32, 32, 64, 4, 4, 3}, 4, 3},   {{64, 16, 16, 2, 4, 3}, 1, 3},  {{16, 64, 32, 2, 4, 3}, 1, 3},
};

struct SimtCosts {
  TileCosts tiles[std::size(kTiles)];
  /// Microseconds that moving takes beside what it is estimated to.
  double moving;
  /// What copying A element by element costs a step, as a factor, where no runs of 16 bytes are
  /// neighbours along K.
  double single;

  static constexpr llvm::StringLiteral family = "contract_simt";
};
constexpr SimtCosts kCosts = {
#include "codegen/cuda/contract_simt/costs.inc"
};

struct Simt : SplitContraction, PricedBy<kCosts> {
  static constexpr llvm::StringRef id = "contract_simt",
                                   summary = "fp32 convolution and matrix product on CUDA cores";
  using Schedule = SimtSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    return readContraction(in, [&](const Contraction &c) -> Result<> {
      if (auto types = multipliesInF32(in, c); !types)
        return types;
      if (!packsIn(c, 16))
        return Refusal{
            "groups of " + std::to_string(c.conv.filters) + " filters, which no tile fits", ""};
      return Accepted{};
    });
  }

  static Result<> fits(const Problem &p, const Schedule &s) {
    return isPackedBy<Simt>(p.c, s).andThen(
        [&] { return hasRoom<Simt>(p, s, s.geometry().shared_bytes()); });
  }

  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    for (const TileRow &row : kTiles)
      for (int64_t splits : splitsFor(p.c, p.in.level, row.shape))
        if (const Schedule s{row.tiles(splits)}; fits(p, s))
          out.push_back(s);
  }

  static Result<> legal(const Problem &p, const Schedule &s) {
    return hasTilesOf<Simt>(kTiles, s).andThen([&] { return fits(p, s); });
  }

  static double microseconds(const Problem &p, const Schedule &s, const SimtCosts &c) {
    const TilePrice tile = priceOf(kTiles, c.tiles, s);
    const double blocks = double(tileCount(p.c, s)) * double(s.splits),
                 each = tile.crowded(blocks / p.in.level.multiprocessors);
    const double time = stepsOf(p.c.depth(), s.tileK, s.splits) * tile.step(each) *
                            slowdownOfCores(p.in.level) *
                            (p.c.neighbours() % 4 == 0 ? 1 : c.single) +
                        tile.blocks(each) + tile.costs.parts(s.splits);
    Effort e;
    e.bytes = p.bytes;
    e.launches = 0;
    // Where estimates are as good as equal, what Tensor Cores multiply goes there.
    const double tie = bitWidth(p.c.b) <= 16 || !multipliedAs(p.in.form).empty() ? 1.2 : 1;
    // What is moved hides behind what is multiplied in part.
    return tie * (kTileLaunch + std::hypot(time, cuda::microseconds(p.in.level, e) + c.moving));
  }

  static void pack(const Problem &p, const Schedule &s, llvm::SmallVectorImpl<Packing> &out) {
    packContractionTiles(p, s.tileN, out);
  }

  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    out.include("cuda/contract_simt/kernel.cuh");
    out.letShapeVary();
    emitContraction(p.in, p.c, membersOf(s, computed(p, s)), scratchOf(s.splits), out, "simt");
  }
};

} // namespace

const Tactic &kContractSimt = kTacticOf<Simt>;

} // namespace tenon::cuda
