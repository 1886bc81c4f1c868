// Defines the tactics of warpgroup products whose blocks walk over tiles
// (runtime/cuda/contract_wgmma): `contract_wgmma_sm90a`, fp16 and bf16 contractions,
// `contract_int8_sm90a`, those of bytes with exact 32-bit sums, and `contract_tf32_sm90a` and
// `contract_tf32x3_sm90a`, those of f32 whose `precision` says so. Where K is split, blocks
// exchange sums through scratch memory.
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

/// What tiles of a schedule cost in microseconds: of each step along K (128 bytes) and of each
/// tile, epilogue and the ring's filling included; where K is split, of each part on top.
struct Tiles {
  int64_t m, n, consumers, stages;
  double step, tile, split, perPart;
  /// What does not overlap of the time that moving all operands and results takes, as a factor.
  double moving = 0;
  /// For columns that fill more than half a tile, long sums, and epilogues that read no rows: too
  /// few registers are left for these.
  bool crowded = false;
};
/// Bytes along K from which crowded tiles are tried, nine steps: less does not pay for a block
/// alone on its multiprocessor. Source: at batch 64 a network whose layers have five and six went
/// from 0.24 to 0.32 ms with them (docs/kernels.md).
constexpr int64_t kLongSum = 9 * 128;
/// Source: fitted to bench/gemm.cu on one H200 (CUDA 13.0; medians in a graph of 20 launches with
/// early starts), all layers of bench/gemm/layers.csv at batch 1 and 8: rms error 7 to 20 %.
/// Crowded ones at batch 64 by layers of UNet and ResNet-50 in their networks
/// (docs/kernels.md).
constexpr Tiles kOfHalves[] = {
    {64, 64, 1, 6, 0.130, 0.80, 0, 0, 1.00},
    {64, 32, 1, 8, 0.118, 0.75, 0, 0, 0.63},
    {64, 128, 1, 4, 0.250, 1.36, 0, 0, 0.33},
    {128, 64, 2, 8, 0.203, 1.07, 1.40, 0.05, 0.85},
    {128, 128, 2, 6, 0.350, 2.20, 0.90, 0.65},
    {128, 192, 2, 5, 0.508, 2.70, 0, 0, 0.05},
    {128, 256, 2, 4, 0.680, 3.04, 0, 0, 0.08},
    {256, 64, 4, 5, 0.460, 2.40, 0, 0, 0.15, true},
    {256, 128, 2, 4, 0.660, 3.60, 0, 0, 0.14, true},
    {192, 128, 3, 5, 0.480, 4.20, 0, 0, 0.10, true},
};
/// Source: steps as above; tiles fitted to 6 layers of ResNet-50 at batch 1, 8 and 64
/// that are rescaled, most with a residual, on one H200: rms error 12 to 18 %. The integers of the
/// epilogue bound a tile; with four warpgroups they hide each other's latencies.
constexpr Tiles kOfBytes[] = {
    {64, 64, 1, 6, 0.181, 1.95, 1.35, 0.18},   {64, 32, 1, 8, 0.176, 1.25, 1.49, 0.10},
    {64, 128, 1, 4, 0.202, 4.25, 1.24, 0.52},  {128, 64, 2, 8, 0.200, 2.35, 1.24, 0.52},
    {128, 128, 2, 6, 0.288, 4.50, 0.66, 1.31}, {128, 256, 2, 4, 0.500, 8.80, 0, 0},
    {192, 64, 3, 6, 0.240, 3.05, 0, 0},        {256, 64, 4, 5, 0.280, 3.85, 0, 0},
};
/// Source: fitted to bench/cuda/contract_wgmma/h100_tf32x3.csv: rms error 7 to 14 %.
constexpr Tiles kOfTf32x3[] = {
    {64, 64, 1, 8, 0.354, 0.93, 1.70, 0.18, 0.43},  {64, 32, 1, 8, 0.260, 0.53, 1.76, 0.09, 0.40},
    {64, 128, 1, 4, 0.572, 1.58, 2.01, 0.35, 0.43}, {128, 128, 2, 4, 0.960, 2.52, 2.96, 0.39, 0.42},
    {192, 64, 3, 5, 0.696, 2.03, 0, 0, 0.43},
};
/// The same times an operand that is no constant. Source: the same layers, their weights split in
/// the kernel: rms error 8 to 11 %.
constexpr Tiles kOfTf32x3Views[] = {
    {64, 64, 1, 8, 0.565, 0.83, 0.75, 0.09, 0.18},
    {64, 32, 1, 8, 0.327, 0.56, 0.75, 0.09, 0.34},
    {128, 64, 2, 6, 0.757, 1.60, 0.85, 0.11, 0.23},
    {128, 128, 2, 4, 1.279, 2.39, 0.52, 0.11, 0.35},
};
/// Source: fitted to bench/gemm.cu on one H100 (CUDA 13.0), the layers of that table at
/// batch 1 and 8: rms error 8 to 18 %.
constexpr Tiles kOfTf32[] = {
    {64, 64, 1, 8, 0.196, 0.81, 1.60, 0.18, 0.48},  {64, 32, 1, 8, 0.168, 0.48, 1.69, 0.10, 0.41},
    {128, 64, 2, 8, 0.279, 0.91, 2.20, 0.28, 0.67}, {128, 128, 2, 6, 0.343, 1.61, 2.53, 0.52, 0.75},
    {128, 256, 2, 4, 0.623, 2.50, 0, 0, 0.64},      {192, 64, 3, 6, 0.329, 1.14, 0, 0, 0.72},
};

/// A row of the family.
struct Row {
  llvm::StringRef id, summary;
  WarpgroupKind kind;
  llvm::StringRef kernel; // conv_<kernel>, matmul_<kernel>
  llvm::ArrayRef<Tiles> tiles;
  llvm::ArrayRef<Tiles> views = {}; // where B is no constant; none: `tiles`
};
constexpr Row kRowOfHalves = {"contract_wgmma_sm90a",
                              "fp16 and bf16 contraction by warpgroups on Tensor Cores", kHalves,
                              "wgmma_sm90", kOfHalves};
constexpr Row kRowOfBytes = {
    "contract_int8_sm90a", "contraction of bytes by warpgroups on Tensor Cores, exact 32-bit sums",
    kBytes, "int8_sm90", kOfBytes};
constexpr Row kRowOfTf32 = {"contract_tf32_sm90a",
                            "f32 contraction in tf32 by warpgroups on Tensor Cores", kTf32,
                            "wgmma_sm90", kOfTf32};
constexpr Row kRowOfTf32x3 = {
    "contract_tf32x3_sm90a",
    "f32 contraction by three products in tf32 by warpgroups, as exact as fp32",
    kTf32x3,
    "tf32x3_sm90",
    kOfTf32x3,
    kOfTf32x3Views};

/// Whether the epilogue reads something that differs from row to row, as a residual does.
bool readsRows(const GroupForm &form) {
  const ScalarProgram &body = form.body;
  const auto rank = unsigned(body.space.size());
  return llvm::any_of(body.inputs, [&](const Access &a) {
    const Strides s = stridesOf(a, rank);
    return llvm::count_if(s.strides, [](Dim d) { return !d.isConstant(0); }) > 1;
  });
}

template <const Row &R> struct Wgmma {
  static constexpr llvm::StringRef id = R.id, summary = R.summary;
  using Problem = WarpgroupProblem;
  using Schedule = WgmmaSchedule;

  static bool forTensorCores(const GroupQuery &in) { return isForWarpgroups(R.kind, in); }
  static Result<Problem> match(const GroupQuery &in) { return readWarpgroups(R.kind, in); }

  static llvm::ArrayRef<Tiles> tilesOf(const Problem &p) {
    return p.c.isPacked || R.views.empty() ? R.tiles : R.views;
  }

  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    const bool roomy = !readsRows(p.in.form) && p.c.depth() * p.kind.bytes >= kLongSum;
    for (const Tiles &t : tilesOf(p)) {
      if (t.crowded && (!roomy || 2 * p.c.columns() <= t.n))
        continue;
      for (int64_t splits : t.split > 0 ? splitsFor(p.c, p.in.level, {t.m, t.n, p.tileK, 0, 0, 0})
                                        : llvm::SmallVector<int64_t, 4>{1})
        if (splits <= 8)
          out.push_back({t.m, t.n, p.tileK, t.consumers, 0, t.stages, splits});
    }
  }

  static double microseconds(const Problem &p, const Schedule &s) {
    const Tiles &t = *llvm::find_if(
        tilesOf(p), [&](const Tiles &row) { return row.m == s.tileM && row.n == s.tileN; });
    const double steps = double(p.steps()) / double(s.splits);
    const double blocks = double(p.tiles(t.m, t.n)) * double(s.splits) / p.in.level.multiprocessors;
    const double parting = s.splits == 1 ? 0 : t.split + t.perPart * double(s.splits);
    const double moving = p.moving();
    const double time =
        std::ceil(blocks) * (steps * t.step * p.shorter() + t.tile + parting) + t.moving * moving;
    return kWarpgroupLaunch + std::max(time, moving);
  }
  static double rank(const Problem &p, const Schedule &s) { return rankOf(p, microseconds(p, s)); }

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

} // namespace

const Tactic &kContractWgmmaSm90a = kTacticOf<Wgmma<kRowOfHalves>>;
const Tactic &kContractInt8Sm90a = kTacticOf<Wgmma<kRowOfBytes>>;
const Tactic &kContractTf32Sm90a = kTacticOf<Wgmma<kRowOfTf32>>;
const Tactic &kContractTf32x3Sm90a = kTacticOf<Wgmma<kRowOfTf32x3>>;

} // namespace tenon::cuda
