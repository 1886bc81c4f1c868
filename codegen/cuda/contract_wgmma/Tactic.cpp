// Defines the tactics of warpgroup products whose blocks walk over tiles
// (runtime/cuda/contract_wgmma): `contract_wgmma_sm90a`, fp16 and bf16 contractions,
// `contract_int8_sm90a`, those of bytes with exact 32-bit sums, `contract_fp8_sm90a`, those of
// f8e4m3, and `contract_tf32_sm90a` and
// `contract_tf32x3_sm90a`, those of f32 whose `precision` says so. Where K is split, blocks
// exchange sums through scratch memory. `contract_pair_sm90a` computes two products of the same
// rows, of which one gates the other (GEGLU, SwiGLU), by tiles of which each has half the columns.
#include "codegen/core/TacticOf.h"
#include "codegen/cuda/shared/Warpgroups.h"
#include "runtime/cuda/tile/geometry.h"

namespace tenon::cuda {
namespace {

struct WgmmaSchedule {
  int64_t tileM, tileN, tileK, consumers, pingPong, stages, splits;

  static llvm::ArrayRef<Field<WgmmaSchedule>> fields() {
    static const Field<WgmmaSchedule> kFields[] = {
        {"tile_m", &WgmmaSchedule::tileM, oneOf(64, 128, 192, 256)},
        {"tile_n", &WgmmaSchedule::tileN, oneOf(32, 64, 128, 192, 256)},
        {"tile_k", &WgmmaSchedule::tileK, oneOf(8, 16, 32, 64, 128)},
        {"consumers", &WgmmaSchedule::consumers, between(1, 4)},
        {"ping_pong", &WgmmaSchedule::pingPong, oneOf(0, 1)},
        {"stages", &WgmmaSchedule::stages, between(2, 8)},
        {"splits", &WgmmaSchedule::splits, oneOf(1, 2, 4, 8)},
    };
    return kFields;
  }
};

/// Tiles that are tried.
struct WgmmaTiles {
  int64_t m, n, consumers, stages;
  bool splits = false; // whether K may be split over blocks
  /// For columns that fill more than half a tile, long sums, and epilogues that read no rows: too
  /// few registers are left for these.
  bool crowded = false;
};
/// Bytes along K from which crowded tiles are tried, nine steps: less does not pay for a block
/// alone on its multiprocessor. Source: at batch 64 a network whose layers have five and six went
/// from 0.24 to 0.32 ms with them (docs/kernels.md).
constexpr int64_t kLongSum = 9 * 128;

constexpr WgmmaTiles kOfHalves[] = {{64, 64, 1, 6},
                                    {64, 32, 1, 8},
                                    {64, 128, 1, 4},
                                    {128, 64, 2, 8, true},
                                    {128, 128, 2, 6, true},
                                    {128, 192, 2, 5},
                                    {128, 256, 2, 4},
                                    {256, 64, 4, 5, false, true},
                                    {256, 128, 2, 4, false, true},
                                    {192, 128, 3, 5, false, true}};
constexpr WgmmaTiles kOfBytes[] = {
    {64, 64, 1, 6, true},   {64, 32, 1, 8, true}, {64, 128, 1, 4, true}, {128, 64, 2, 8, true},
    {128, 128, 2, 6, true}, {128, 256, 2, 4},     {192, 64, 3, 6},       {256, 64, 4, 5}};
/// Twice as many sums as results are in registers (runtime/cuda/tile/tensor_cores_fp8.cuh).
constexpr WgmmaTiles kOfFloat8[] = {
    {64, 64, 1, 6, true},   {64, 32, 1, 8, true}, {64, 128, 1, 4, true}, {128, 64, 2, 8, true},
    {128, 128, 2, 6, true}, {128, 192, 2, 5},     {192, 64, 3, 6},       {256, 64, 4, 5}};
constexpr WgmmaTiles kOfTf32x3[] = {{64, 64, 1, 8, true},
                                    {64, 32, 1, 8, true},
                                    {64, 128, 1, 4, true},
                                    {128, 128, 2, 4, true},
                                    {192, 64, 3, 5}};
/// Where B is no constant.
constexpr WgmmaTiles kOfTf32x3Views[] = {
    {64, 64, 1, 8, true}, {64, 32, 1, 8, true}, {128, 64, 2, 6, true}, {128, 128, 2, 4, true}};
constexpr WgmmaTiles kOfTf32[] = {{64, 64, 1, 8, true},  {64, 32, 1, 8, true},
                                  {128, 64, 2, 8, true}, {128, 128, 2, 6, true},
                                  {128, 256, 2, 4},      {192, 64, 3, 6}};

/// Microseconds of each step along K (128 bytes) and of each tile, epilogue and the ring's filling
/// included; where K is split, of the tile and of each part on top.
struct WgmmaTileCosts {
  double step, tile, split, perPart;
  /// What does not overlap of the time that moving all operands and results takes, as a factor.
  double moving;
};
struct WgmmaCosts {
  /// halves: of convolutions; products: of matrices.
  WgmmaTileCosts halves[std::size(kOfHalves)], products[std::size(kOfHalves)],
      bytes[std::size(kOfBytes)], float8[std::size(kOfFloat8)], tf32x3[std::size(kOfTf32x3)],
      tf32x3Views[std::size(kOfTf32x3Views)], tf32[std::size(kOfTf32)];

  static constexpr llvm::StringLiteral family = "contract_wgmma";
};
constexpr WgmmaCosts kCosts = {
#include "codegen/cuda/contract_wgmma/costs.inc"
};

/// Tiles, and where their costs stand.
struct TileTable {
  llvm::ArrayRef<WgmmaTiles> rows;
  const WgmmaTileCosts *(*costs)(const WgmmaCosts &, bool isConv); // of `rows`
};

/// A row of the family.
struct Row {
  llvm::StringRef id, summary;
  WarpgroupKind kind;
  llvm::StringRef kernel; // conv_<kernel>, matmul_<kernel>
  TileTable tiles;
  TileTable views = {}; // where B is no constant; none: `tiles`
};
using Costs = const WgmmaTileCosts *;
constexpr Row kRowOfHalves = {"contract_wgmma_sm90a",
                              "fp16 and bf16 contraction by warpgroups on Tensor Cores",
                              kHalves,
                              "wgmma_sm90",
                              {kOfHalves, [](const WgmmaCosts &c, bool isConv) -> Costs {
                                 return isConv ? c.halves : c.products;
                               }}};
constexpr Row kRowOfBytes = {
    "contract_int8_sm90a",
    "contraction of bytes by warpgroups on Tensor Cores, exact 32-bit sums",
    kBytes,
    "int8_sm90",
    {kOfBytes, [](const WgmmaCosts &c, bool) -> Costs { return c.bytes; }}};
constexpr Row kRowOfFloat8 = {
    "contract_fp8_sm90a",
    "contraction of f8e4m3 by warpgroups on Tensor Cores, fp32 sums",
    kFloat8,
    "wgmma_sm90",
    {kOfFloat8, [](const WgmmaCosts &c, bool) -> Costs { return c.float8; }}};
constexpr Row kRowOfTf32 = {"contract_tf32_sm90a",
                            "f32 contraction in tf32 by warpgroups on Tensor Cores",
                            kTf32,
                            "wgmma_sm90",
                            {kOfTf32, [](const WgmmaCosts &c, bool) -> Costs { return c.tf32; }}};
constexpr Row kRowOfTf32x3 = {
    "contract_tf32x3_sm90a",
    "f32 contraction by three products in tf32 by warpgroups, as exact as fp32",
    kTf32x3,
    "tf32x3_sm90",
    {kOfTf32x3, [](const WgmmaCosts &c, bool) -> Costs { return c.tf32x3; }},
    {kOfTf32x3Views, [](const WgmmaCosts &c, bool) -> Costs { return c.tf32x3Views; }}};

/// Whether the epilogue reads something that differs from row to row, as a residual does.
bool readsRows(const GroupForm &form) {
  const ScalarProgram &body = form.body;
  const auto rank = unsigned(body.space.size());
  return llvm::any_of(body.inputs, [&](const Access &a) {
    const Strides s = stridesOf(a, rank);
    return llvm::count_if(s.strides, [](Dim d) { return !d.isConstant(0); }) > 1;
  });
}

/// Of `row` of a table, whose costs are `t`, where the result has so many tiles.
double microsecondsOf(const WarpgroupProblem &p, const WgmmaSchedule &s, const WgmmaTileCosts &t,
                      int64_t tiles) {
  const double steps = double(p.steps()) / double(s.splits);
  const double blocks = double(tiles) * double(s.splits) / p.in.level.multiprocessors;
  const double parting = s.splits == 1 ? 0 : t.split + t.perPart * double(s.splits);
  const double moving = p.moving();
  const double time =
      std::ceil(blocks) * (steps * t.step * p.shorter() + t.tile + parting) + t.moving * moving;
  return kWarpgroupLaunch + std::max(time, moving);
}

template <const Row &R> struct Wgmma : PricedBy<kCosts> {
  static constexpr llvm::StringRef id = R.id, summary = R.summary;
  using Problem = WarpgroupProblem;
  using Schedule = WgmmaSchedule;

  static bool forTensorCores(const GroupQuery &in) { return isForWarpgroups(R.kind, in); }
  static Result<Problem> match(const GroupQuery &in) { return readWarpgroups(R.kind, in); }

  static const TileTable &tilesOf(const Problem &p) {
    return p.c.isPacked || R.views.rows.empty() ? R.tiles : R.views;
  }

  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    const bool roomy = !readsRows(p.in.form) && p.c.depth() * p.kind.bytes >= kLongSum;
    for (const WgmmaTiles &t : tilesOf(p).rows) {
      if (t.crowded && (!roomy || 2 * p.c.columns() <= t.n))
        continue;
      for (int64_t splits : t.splits ? splitsFor(p.c, p.in.level, {t.m, t.n, p.tileK, 0, 0, 0})
                                     : llvm::SmallVector<int64_t, 4>{1})
        if (splits <= 8)
          out.push_back({t.m, t.n, p.tileK, t.consumers, 0, t.stages, splits});
    }
  }

  static double microseconds(const Problem &p, const Schedule &s, const WgmmaCosts &costs) {
    const TileTable &tiles = tilesOf(p);
    const WgmmaTiles *row = llvm::find_if(
        tiles.rows, [&](const WgmmaTiles &r) { return r.m == s.tileM && r.n == s.tileN; });
    return microsecondsOf(p, s, tiles.costs(costs, p.c.isConv)[row - tiles.rows.begin()],
                          p.tiles(s.tileM, s.tileN));
  }
  static double rank(const Problem &p, const Schedule &s, const WgmmaCosts &costs) {
    return rankOf(p, microseconds(p, s, costs));
  }

  static int64_t scratch(const Problem &p, const Schedule &s) {
    return split_partial_bytes(p.tiles(s.tileM, s.tileN), s.splits, s.tileM, s.tileN);
  }
  /// Each consumer counts for itself.
  static int64_t zeroed(const Problem &p, const Schedule &s) {
    return split_counter_bytes(p.tiles(s.tileM, s.tileN), s.splits, s.consumers);
  }
  static void pack(const Problem &p, const Schedule &, llvm::SmallVectorImpl<Packing> &out) {
    packForWarpgroups(p, out);
  }
  static KeyValues computed(const Problem &p, const Schedule &) {
    return {{"multiprocessors", p.in.level.multiprocessors}};
  }
  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    out.include("cuda/contract_wgmma/kernel.cuh");
    out.letShapeVary();
    emitContraction(p.in, p.c, membersOf(s, computed(p, s)), scratchOf(s.splits), out, R.kernel,
                    p.kind.weights());
  }
};

/// Two products of the same rows.
struct PairProblem {
  /// The group's, but for its body, which is that of both sums.
  std::shared_ptr<const GroupForm> form;
  WarpgroupProblem product, beside;
};

bool isProduct(const Operation &op) { return op.is(Op::MatMul); }

struct Pair : PricedBy<kCosts> {
  static constexpr llvm::StringRef id = "contract_pair_sm90a",
                                   summary = "two fp16 or bf16 products of the same rows by "
                                             "warpgroups, of which one gates the other";
  static constexpr ChainPart kParts[] = {{isProduct, 1}, {isProduct, 1}};
  static constexpr Chain chains[] = {
      {"fuse.paired-products", "two products of the same rows, of which the second reads the first",
       kParts}};
  using Problem = PairProblem;
  using Schedule = WgmmaSchedule;

  static bool forTensorCores(const GroupQuery &in) { return isForWarpgroups(kHalves, in); }

  static Result<Problem> match(const GroupQuery &in) {
    const GroupForm &form = in.form;
    if (form.beside.size() != 1 || !form.before.empty() || !form.joined.empty())
      return Refusal{"other than two products beside each other", ""};
    const GroupForm &other = form.beside[0];
    auto joined = std::make_shared<GroupForm>(form);
    joined->body = bodyOfSums(form);
    auto product = readWarpgroups(kHalves, {*joined, in.level, in.alignment});
    if (!product)
      return std::move(product).refusal();
    auto beside = readWarpgroups(kHalves, {joined->beside[0], in.level, in.alignment});
    if (!beside)
      return std::move(beside).refusal();
    const Contraction &a = product->c, &b = beside->c;
    if (a.isConv || b.isConv || !a.isPacked || !b.isPacked || a.hasPrologue || b.hasPrologue)
      return Refusal{"other than rows as they lie times constants", ""};
    if (a.rows() <= kScaledRows)
      return Refusal{"no more rows than strip_joined multiplies", ""};
    if (form.anchor->operand(0) != other.anchor->operand(0) || a.transA != b.transA || a.n != b.n ||
        a.k != b.k || a.b != b.b)
      return Refusal{"two products of different rows, or of different kinds", ""};
    if (auto read = readsBeside(form, other); !read)
      return std::move(read).refusal();
    return PairProblem{std::move(joined), *std::move(product), *std::move(beside)};
  }

  static int64_t tilesOf(const Problem &p, const Schedule &s) {
    return p.product.tiles(s.tileM, s.tileN / 2);
  }
  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    const WarpgroupProblem &of = p.product;
    const bool roomy = !readsRows(*p.form) && of.c.depth() * of.kind.bytes >= kLongSum;
    for (const WgmmaTiles &t : kOfHalves)
      if (t.n >= 64 && (!t.crowded || (roomy && 4 * of.c.columns() > t.n)))
        out.push_back({t.m, t.n, of.tileK, t.consumers, 0, t.stages, 1});
  }
  /// An element has two sums, which a tile of one product counts as two.
  static double microseconds(const Problem &p, const Schedule &s, const WgmmaCosts &costs) {
    const WgmmaTiles *row = llvm::find_if(
        kOfHalves, [&](const WgmmaTiles &r) { return r.m == s.tileM && r.n == s.tileN; });
    return microsecondsOf(p.product, s, costs.products[row - kOfHalves], tilesOf(p, s));
  }
  static double rank(const Problem &p, const Schedule &s, const WgmmaCosts &costs) {
    return rankOf(p.product, microseconds(p, s, costs));
  }
  static void pack(const Problem &p, const Schedule &, llvm::SmallVectorImpl<Packing> &out) {
    packForWarpgroups(p.product, out);
    packForWarpgroups(p.beside, out);
  }
  static KeyValues computed(const Problem &p, const Schedule &) {
    return {{"multiprocessors", p.product.in.level.multiprocessors}};
  }
  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    out.include("cuda/contract_wgmma/kernel.cuh");
    out.letShapeVary();
    emitContraction(p.product.in, p.product.c, membersOf(s, computed(p, s)), SplitScratch::Unused,
                    out, kRowOfHalves.kernel, "packed_pair");
  }
};

} // namespace

const Tactic &kContractPairSm90a = kTacticOf<Pair>;
const Tactic &kContractWgmmaSm90a = kTacticOf<Wgmma<kRowOfHalves>>;
const Tactic &kContractInt8Sm90a = kTacticOf<Wgmma<kRowOfBytes>>;
const Tactic &kContractFloat8Sm90a = kTacticOf<Wgmma<kRowOfFloat8>>;
const Tactic &kContractTf32Sm90a = kTacticOf<Wgmma<kRowOfTf32>>;
const Tactic &kContractTf32x3Sm90a = kTacticOf<Wgmma<kRowOfTf32x3>>;

} // namespace tenon::cuda
