// Defines the tactic `contract_halo_sm90a` (runtime/cuda/contract_halo): convolutions whose windows
// overlap bring a tile of pixels with its halo into shared memory once, and every tap multiplies
// from there by warpgroups; the weights of a block's filters stay beside the tiles.
#include "codegen/core/TacticOf.h"
#include "codegen/cuda/shared/Warpgroups.h"
#include "runtime/cuda/contract_halo/geometry.h"

namespace tenon::cuda {
namespace {

struct HaloSchedule {
  int64_t tileM, tileN, tileK, consumers, stages;

  static llvm::ArrayRef<Field<HaloSchedule>> fields() {
    static const Field<HaloSchedule> kFields[] = {
        {"tile_m", &HaloSchedule::tileM, oneOf(64)},
        {"tile_n", &HaloSchedule::tileN, oneOf(32, 64, 128)},
        {"tile_k", &HaloSchedule::tileK, oneOf(16, 32, 64)},
        {"consumers", &HaloSchedule::consumers, between(1, 3)},
        {"stages", &HaloSchedule::stages, between(2, 4)},
    };
    return kFields;
  }
};

/// Tiles of m / 8 rows of 8 pixels with their halo in shared memory, the weights of n filters
/// beside them.
struct HaloTiles {
  int64_t m, n, consumers;
};
constexpr HaloTiles kTiles[] = {{64, 32, 1}, {64, 32, 2}, {64, 32, 3}, {64, 64, 1},
                                {64, 64, 2}, {64, 64, 3}, {64, 128, 2}};

struct HaloCosts {
  /// Microseconds of a tile while all warpgroups of a multiprocessor have one: of each step along K
  /// (128 bytes), and of the rest.
  struct Tile {
    double step, rest;
  } tiles[std::size(kTiles)];
  /// Until the weights are there, for each KiB of them.
  double weights;
  /// What decides where others take as long alone.
  double ties;

  static constexpr llvm::StringLiteral family = "contract_halo";
};
constexpr HaloCosts kCosts = {
#include "codegen/cuda/contract_halo/costs.inc"
};

contract_halo_geometry<int64_t> geometryOf(const WarpgroupProblem &p, const HaloSchedule &s) {
  const ConvProblem &conv = p.c.conv;
  return {s.tileM,
          s.tileN,
          s.tileK,
          s.consumers,
          s.stages,
          p.steps() / conv.taps(),
          ceilDiv(conv.filters, s.tileN),
          conv.kernelH,
          conv.kernelW,
          conv.dilationH,
          conv.dilationW,
          conv.batch.constant(),
          conv.outHeight.constant(),
          conv.outWidth.constant()};
}

/// With as many buffers for a warpgroup as find room beside the weights, at most four; below 2: too
/// few.
HaloSchedule scheduleOf(const WarpgroupProblem &p, const HaloTiles &t) {
  constexpr int64_t kLargestBox = 256;
  HaloSchedule s{t.m, t.n, p.tileK, t.consumers, 4};
  const auto geometry = geometryOf(p, s);
  if (geometry.covered_w() > kLargestBox || geometry.covered_h() > kLargestBox)
    s.stages = 0;
  while (s.stages >= 2 && geometryOf(p, s).shared_bytes() > int64_t(p.in.level.sharedBytes))
    --s.stages;
  return s;
}

struct Halo : PricedBy<kCosts> {
  static constexpr llvm::StringRef id = "contract_halo_sm90a",
                                   summary = "fp16 and bf16 convolution by warpgroups from tiles "
                                             "with their halo";
  using Problem = WarpgroupProblem;
  using Schedule = HaloSchedule;

  static bool forTensorCores(const GroupQuery &in) { return isForWarpgroups(kHalves, in); }

  static Result<Problem> match(const GroupQuery &in) {
    auto p = readWarpgroups(kHalves, in);
    if (!p)
      return std::move(p).refusal();
    const ConvProblem &conv = p->c.conv;
    if (!p->c.isConv || p->c.hasPrologue || conv.isVolume() || conv.groups != 1 ||
        conv.taps() == 1 || conv.strideH != 1 || conv.strideW != 1 || !conv.batch.isConstant())
      return Refusal{"windows that do not overlap in a plane, groups, or an input that is computed "
                     "on the way in",
                     ""};
    std::vector<Schedule> found;
    candidates(*p, found);
    if (found.empty())
      return Refusal{"weights that leave no room for tiles with their halo in shared memory", ""};
    return p;
  }

  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    for (const HaloTiles &t : kTiles) {
      const Schedule s = scheduleOf(p, t);
      if (s.stages >= 2 && t.n < 2 * int64_t(llvm::alignTo(uint64_t(p.c.columns()), 32)))
        out.push_back(s);
    }
  }

  static double microseconds(const Problem &p, const Schedule &s, const HaloCosts &costs) {
    const HaloTiles *row = llvm::find_if(kTiles, [&](const HaloTiles &t) {
      return t.m == s.tileM && t.n == s.tileN && t.consumers == s.consumers;
    });
    const HaloCosts::Tile &tile = costs.tiles[row - kTiles];
    const auto geometry = geometryOf(p, s);
    const auto tiles = double(geometry.most_tiles(p.in.level.multiprocessors));
    const double time = tiles * (double(p.steps()) * tile.step * p.shorter() + tile.rest) +
                        costs.weights * double(geometry.weight_bytes()) / 1024 + costs.ties;
    return kWarpgroupLaunch + std::max(time, p.moving());
  }
  static double rank(const Problem &p, const Schedule &s, const HaloCosts &costs) {
    return rankOf(p, microseconds(p, s, costs));
  }

  static void pack(const Problem &p, const Schedule &, llvm::SmallVectorImpl<Packing> &out) {
    packForWarpgroups(p, out);
  }
  /// `splits` stood in such schedules once.
  static KeyValues computed(const Problem &p, const Schedule &) {
    return {{"splits", 1}, {"multiprocessors", p.in.level.multiprocessors}};
  }
  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    out.include("cuda/contract_halo/kernel.cuh");
    out.letShapeVary();
    emitContraction(p.in, p.c, membersOf(s, computed(p, s)), SplitScratch::Unused, out,
                    "halo_sm90");
  }
};

} // namespace

const Tactic &kContractHaloSm90a = kTacticOf<Halo>;

} // namespace tenon::cuda
