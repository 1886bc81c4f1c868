// Defines the tactics of warpgroup products in which each block has a tile, or a part of one, and
// the blocks of a cluster that split K add up their sums in shared memory
// (runtime/cuda/contract_cluster): `contract_cluster_sm90a`, fp16 and bf16,
// `contract_cluster_int8_sm90a`, `contract_cluster_fp8_sm90a`, `contract_cluster_tf32_sm90a` and
// `contract_cluster_tf32x3_sm90a`. For layers of few tiles.
#include "codegen/core/TacticOf.h"
#include "codegen/cuda/shared/Warpgroups.h"
#include "runtime/cuda/contract_cluster/geometry.h"

namespace tenon::cuda {
namespace {

/// Shared memory of a block beside which one of the kernel before has its share
/// (runtime/cuda/host/smem_partition.h), less a kilobyte for barriers.
constexpr int64_t kHalfOfShared = 110 * 1024;

struct ClusterSchedule {
  int64_t tileM, tileN, tileK, consumers, stages, splits;

  static llvm::ArrayRef<Field<ClusterSchedule>> fields() {
    static const Field<ClusterSchedule> kFields[] = {
        {"tile_m", &ClusterSchedule::tileM, oneOf(64, 128)},
        {"tile_n", &ClusterSchedule::tileN, oneOf(32, 64, 128)},
        {"tile_k", &ClusterSchedule::tileK, oneOf(8, 16, 32, 64, 128)},
        {"consumers", &ClusterSchedule::consumers, oneOf(1, 2)},
        {"stages", &ClusterSchedule::stages, between(2, 8)},
        {"splits", &ClusterSchedule::splits, oneOf(1, 2, 4, 8)},
    };
    return kFields;
  }
};

/// Tiles that are tried: of elements of up to 16 bits, and of f32.
struct ClusterTiles {
  int64_t m, n, consumers, stages;
};
constexpr ClusterTiles kOfShort[] = {
    {64, 32, 1, 8}, {64, 64, 2, 6}, {64, 128, 2, 4}, {128, 64, 2, 4}};
constexpr ClusterTiles kOfTf32x3[] = {{64, 32, 1, 6}, {64, 64, 2, 4}, {64, 128, 2, 4}};
constexpr ClusterTiles kOfTf32[] = {{64, 32, 1, 8}, {64, 64, 2, 6}, {64, 128, 2, 4}};

/// Microseconds of a part of a tile: each step along K (128 bytes) and the rest; where K is split,
/// of the tile and of each part on top.
struct PartCosts {
  double step, rest, split, perPart;
  /// What does not overlap of the time that moving all operands and results takes, as a factor.
  double moving;
  /// A step that waits for a buffer to be read.
  double late;
  /// What blocks beyond half a one for each multiprocessor cost, as a factor: two of a kernel meet
  /// on one while the kernel before runs on others.
  double sharing;
};
struct ClusterCosts {
  /// halves: of convolutions; products: of matrices.
  PartCosts halves[std::size(kOfShort)], products[std::size(kOfShort)], bytes[std::size(kOfShort)],
      float8[std::size(kOfShort)], tf32x3[std::size(kOfTf32x3)], tf32[std::size(kOfTf32)];

  static constexpr llvm::StringLiteral family = "contract_cluster";
};
constexpr ClusterCosts kCosts = {
#include "codegen/cuda/contract_cluster/costs.inc"
};

/// A row of the family.
struct Row {
  llvm::StringRef id, summary;
  WarpgroupKind kind;
  llvm::ArrayRef<ClusterTiles> tiles;
  const PartCosts *(*costs)(const ClusterCosts &, bool isConv); // of `tiles`
};
using Costs = const PartCosts *;
constexpr Row kRowOfHalves = {
    "contract_cluster_sm90a", "fp16 and bf16 contraction by clusters of warpgroups", kHalves,
    kOfShort,
    [](const ClusterCosts &c, bool isConv) -> Costs { return isConv ? c.halves : c.products; }};
constexpr Row kRowOfBytes = {"contract_cluster_int8_sm90a",
                             "contraction of bytes by clusters of warpgroups, exact 32-bit sums",
                             kBytes, kOfShort,
                             [](const ClusterCosts &c, bool) -> Costs { return c.bytes; }};
constexpr Row kRowOfFloat8 = {
    "contract_cluster_fp8_sm90a", "contraction of f8e4m3 by clusters of warpgroups, fp32 sums",
    kFloat8, kOfShort, [](const ClusterCosts &c, bool) -> Costs { return c.float8; }};
constexpr Row kRowOfTf32 = {"contract_cluster_tf32_sm90a",
                            "f32 contraction in tf32 by clusters of warpgroups", kTf32, kOfTf32,
                            [](const ClusterCosts &c, bool) -> Costs { return c.tf32; }};
constexpr Row kRowOfTf32x3 = {
    "contract_cluster_tf32x3_sm90a",
    "f32 contraction by three products in tf32 by clusters of warpgroups, as exact as fp32",
    kTf32x3, kOfTf32x3, [](const ClusterCosts &c, bool) -> Costs { return c.tf32x3; }};

/// Ways to split K over clusters, one part among them: at least two steps a block where it is
/// split.
llvm::SmallVector<int64_t, 4> splitsOf(const WarpgroupProblem &p, const ClusterTiles &t) {
  llvm::SmallVector<int64_t, 4> splits;
  // Contiguous columns lie in blocks of 64, and that of a warpgroup begins one.
  const contract_cluster_geometry shape{t.m, t.n, t.consumers, 1};
  if (!p.kMajorB && shape.shares_columns() && shape.columns() % 64 != 0)
    return splits;
  const int64_t tiles = p.tiles(t.m, t.n);
  for (int64_t s = 1; s <= kMostOfCluster; s *= 2)
    if (tiles * s <= 2 * int64_t(p.in.level.multiprocessors) && (s == 1 || p.steps() >= 2 * s))
      splits.push_back(s);
  return splits;
}

/// Buffers beside what blocks of a tile send each other: those that leave room for the next
/// kernel's block, too, or where that is one, all.
int64_t stagesBesideSums(const WarpgroupKind &kind, const ClusterTiles &t, int64_t splits) {
  const int64_t sums = contract_cluster_geometry{t.m, t.n, t.consumers, splits}.sent_bytes(),
                buffer = (t.m + kind.storedParts * t.n) * 128,
                beside = (kHalfOfShared - sums) / buffer;
  return beside > 1 ? beside : (2 * kHalfOfShared - sums) / buffer;
}

template <const Row &R> struct Cluster : PricedBy<kCosts> {
  static constexpr llvm::StringRef id = R.id, summary = R.summary;
  using Problem = WarpgroupProblem;
  using Schedule = ClusterSchedule;

  static bool forTensorCores(const GroupQuery &in) { return isForWarpgroups(R.kind, in); }

  static Result<Problem> match(const GroupQuery &in) {
    auto p = readWarpgroups(R.kind, in);
    if (!p)
      return std::move(p).refusal();
    if (!p->c.isPacked && R.kind.storedParts == 2)
      return Refusal{"a second operand that is no constant: clusters have no warps that split it",
                     ""};
    std::vector<Schedule> found;
    candidates(*p, found);
    if (found.empty())
      return Refusal{"more tiles than two for each multiprocessor", ""};
    return p;
  }

  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    for (const ClusterTiles &t : R.tiles)
      for (int64_t splits : splitsOf(p, t))
        out.push_back(
            {t.m, t.n, p.tileK, t.consumers,
             splits > 1 ? std::min(t.stages, stagesBesideSums(p.kind, t, splits)) : t.stages,
             splits});
  }

  static double microseconds(const Problem &p, const Schedule &s, const ClusterCosts &costs) {
    const ClusterTiles *row = llvm::find_if(
        R.tiles, [&](const ClusterTiles &t) { return t.m == s.tileM && t.n == s.tileN; });
    const PartCosts &t = R.costs(costs, p.c.isConv)[row - R.tiles.begin()];
    const double steps = double(p.steps()) / double(s.splits);
    const double blocks =
        double(p.tiles(s.tileM, s.tileN)) * double(s.splits) / p.in.level.multiprocessors;
    const double parting = s.splits == 1 ? 0 : t.split + t.perPart * double(s.splits);
    const double first = std::min(steps, double(s.stages));
    const double part =
        p.shorter() * (t.step * first + t.late * (steps - first)) + t.rest + parting;
    const double moving = p.moving();
    const double time = part * (1 + t.sharing * std::max(0.0, blocks - 0.5)) + t.moving * moving;
    return kWarpgroupLaunch + std::max(time, moving);
  }
  static double rank(const Problem &p, const Schedule &s, const ClusterCosts &costs) {
    return rankOf(p, microseconds(p, s, costs));
  }

  static void pack(const Problem &p, const Schedule &, llvm::SmallVectorImpl<Packing> &out) {
    packForWarpgroups(p, out);
  }
  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    out.include("cuda/contract_cluster/kernel.cuh");
    out.letShapeVary();
    emitContraction(p.in, p.c, membersOf(s), SplitScratch::None, out, "cluster_sm90",
                    p.kind.weights());
  }
};

} // namespace

const Tactic &kContractClusterSm90a = kTacticOf<Cluster<kRowOfHalves>>;
const Tactic &kContractClusterInt8Sm90a = kTacticOf<Cluster<kRowOfBytes>>;
const Tactic &kContractClusterFloat8Sm90a = kTacticOf<Cluster<kRowOfFloat8>>;
const Tactic &kContractClusterTf32Sm90a = kTacticOf<Cluster<kRowOfTf32>>;
const Tactic &kContractClusterTf32x3Sm90a = kTacticOf<Cluster<kRowOfTf32x3>>;

} // namespace tenon::cuda
