// Defines the tactics of warpgroup products with the copy engine as loader, on sm_90a alone
// (runtime/cuda/contract_wgmma_sm90.cuh): `contract_wgmma_sm90a`, fp16 and bf16 contractions,
// `contract_int8_sm90a`, those of bytes with exact 32-bit sums, and `contract_tf32_sm90a` and
// `contract_tf32x3_sm90a`, those of f32 whose `precision` says so. Of these weights are stored
// rounded to tf32, or in two parts.
//
// Tensor maps want addresses that are multiples of 16 bytes. What cannot be shown to lie so (the
// caller's memory, odd channel counts) is left to the tactics of sm_80.
#include "codegen/cuda/Tactics.h"

#include "codegen/Alignment.h"
#include "codegen/Work.h"
#include "codegen/cuda/Contraction.h"

#include "llvm/Support/MathExtras.h"

namespace tenon::cuda {
namespace {

/// A schedule's tiles and what they cost in microseconds: of each step along K (128 bytes) and of
/// each tile, epilogue and the ring's filling included; where K is split, of each part on top.
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
/// from 0.24 to 0.32 ms with them (docs/performance.md).
constexpr int64_t kLongSum = 9 * 128;
/// Source: fitted to bench/gemm.cu on one H200 (CUDA 13.0; medians in a graph of 20 launches with
/// early starts), all layers of bench/gemm/layers.csv at batch 1 and 8: rms error 7 to 20 %.
/// Crowded ones at batch 64 by layers of UNet and ResNet-50 in their networks
/// (docs/performance.md).
constexpr Tiles kHalves[] = {
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
/// A tile, or a part of one, to a block (contract_cluster_sm90.cuh).
struct Parts : Tiles {
  /// A step that waits for a buffer to be read.
  double late;
  /// What blocks beyond half a one for each multiprocessor cost, as a factor: two of a kernel meet
  /// on one while the kernel before runs on others.
  double sharing;
};
/// Source: as above: rms error 13 to 17 %. Measured before kernels took shares of memory in turn
/// (runtime/cuda/shares.h); a fit to later times chose no better (docs/performance.md).
constexpr Parts kParts[] = {
    {{64, 32, 1, 8, 0.100, 0.44, 0.32, 0.05, 0.50}, 0.100, 1.30},
    {{64, 64, 2, 6, 0.109, 0.50, 0.43, 0.06, 0.85}, 0.126, 1.26},
    {{64, 128, 2, 4, 0.105, 0.67, 0.93, 0.06, 1.25}, 0.300, 1.00},
    {{128, 64, 2, 4, 0.147, 0.73, 0.86, 0.07, 0.75}, 0.260, 1.26},
};
/// Of bytes. Estimates, not measured: steps as above, and what kBytes has more for a tile than
/// kHalves had for the same, a half of it where two warpgroups share the columns.
constexpr Parts kByteParts[] = {
    {{64, 32, 1, 8, 0.100, 0.84, 0.32, 0.05, 0.50}, 0.100, 1.30},
    {{64, 64, 2, 6, 0.109, 0.90, 0.43, 0.06, 0.85}, 0.126, 1.26},
    {{64, 128, 2, 4, 0.105, 1.90, 0.93, 0.06, 1.25}, 0.300, 1.00},
    {{128, 64, 2, 4, 0.147, 1.51, 0.86, 0.07, 0.75}, 0.260, 1.26},
};
/// Tiles of m / 8 rows of 8 pixels with their halo in shared memory, the weights of n filters
/// beside them (contract_halo_sm90.cuh), and what they cost in microseconds while all warpgroups of
/// a multiprocessor have one: each step along K (128 bytes), and the rest of a tile.
struct Halo {
  int64_t m, n, consumers;
  double step, tile;
};
/// Source: fitted to bench/gemm/schedules_halo_h100.csv, layers of 3x3 pixels at batch 1, 8 and 64:
/// rms error 5 to 15 %.
constexpr Halo kHalos[] = {
    {64, 32, 1, 0.089, 0.54},  {64, 32, 2, 0.114, 0.82}, {64, 32, 3, 0.123, 1.50},
    {64, 64, 1, 0.090, 1.01},  {64, 64, 2, 0.121, 1.70}, {64, 64, 3, 0.158, 2.12},
    {64, 128, 2, 0.124, 3.40},
};
/// Until the weights are there, for each of their bytes; and what decides where others take as long
/// alone: in its network DenseNet-121 at batch 1 was 0.8 % slower with such tiles.
constexpr double kHaloWeights = 0.0048 / 1024, kHaloTies = 0.05;
constexpr int64_t kMostOfCluster = 8;
/// Shared memory of a block beside which one of the kernel before has its share
/// (runtime/cuda/shares.h), less a kilobyte for barriers.
constexpr int64_t kHalfOfShared = 110 * 1024;
/// Of bytes. Source: steps as above; tiles fitted to 6 layers of ResNet-50 at batch 1, 8 and 64
/// that are rescaled, most with a residual, on one H200: rms error 12 to 18 %. The integers of the
/// epilogue bound a tile; with four warpgroups they hide each other's latencies.
constexpr Tiles kBytes[] = {
    {64, 64, 1, 6, 0.181, 1.95, 1.35, 0.18},   {64, 32, 1, 8, 0.176, 1.25, 1.49, 0.10},
    {64, 128, 1, 4, 0.202, 4.25, 1.24, 0.52},  {128, 64, 2, 8, 0.200, 2.35, 1.24, 0.52},
    {128, 128, 2, 6, 0.288, 4.50, 0.66, 1.31}, {128, 256, 2, 4, 0.500, 8.80, 0, 0},
    {192, 64, 3, 6, 0.240, 3.05, 0, 0},        {256, 64, 4, 5, 0.280, 3.85, 0, 0},
};
/// Of tf32x3. Source: fitted to bench/gemm/schedules_tf32x3_h100.csv: rms error 7 to 14 %.
constexpr Tiles kFloats[] = {
    {64, 64, 1, 8, 0.354, 0.93, 1.70, 0.18, 0.43},  {64, 32, 1, 8, 0.260, 0.53, 1.76, 0.09, 0.40},
    {64, 128, 1, 4, 0.572, 1.58, 2.01, 0.35, 0.43}, {128, 128, 2, 4, 0.960, 2.52, 2.96, 0.39, 0.42},
    {192, 64, 3, 5, 0.696, 2.03, 0, 0, 0.43},
};
constexpr Parts kFloatParts[] = {
    {{64, 32, 1, 6, 0.235, 0.54, 0.20, 0.03, 0.53}, 0.208, 0.96},
    {{64, 64, 2, 4, 0.332, 0.90, 0.29, 0.05, 0.59}, 0.330, 0.90},
    {{64, 128, 2, 4, 0.791, 0.86, 0.76, 0.01, 0.53}, 0.454, 1.24},
};
/// The same times an operand that is no constant. Source: the same layers, their weights split in
/// the kernel: rms error 8 to 11 %.
constexpr Tiles kFloatViews[] = {
    {64, 64, 1, 8, 0.565, 0.83, 0.75, 0.09, 0.18},
    {64, 32, 1, 8, 0.327, 0.56, 0.75, 0.09, 0.34},
    {128, 64, 2, 6, 0.757, 1.60, 0.85, 0.11, 0.23},
    {128, 128, 2, 4, 1.279, 2.39, 0.52, 0.11, 0.35},
};
/// Of tf32. Source: fitted to bench/gemm.cu on one H100 (CUDA 13.0), the layers of that table at
/// batch 1 and 8: rms error 8 to 18 %.
constexpr Tiles kRounded[] = {
    {64, 64, 1, 8, 0.196, 0.81, 1.60, 0.18, 0.48},  {64, 32, 1, 8, 0.168, 0.48, 1.69, 0.10, 0.41},
    {128, 64, 2, 8, 0.279, 0.91, 2.20, 0.28, 0.67}, {128, 128, 2, 6, 0.343, 1.61, 2.53, 0.52, 0.75},
    {128, 256, 2, 4, 0.623, 2.50, 0, 0, 0.64},      {192, 64, 3, 6, 0.329, 1.14, 0, 0, 0.72},
};
constexpr Parts kRoundedParts[] = {
    {{64, 32, 1, 8, 0.148, 0.58, 0.14, 0.03, 0.53}, 0.143, 0.88},
    {{64, 64, 2, 6, 0.212, 0.76, 0.33, 0.04, 0.52}, 0.176, 0.93},
    {{64, 128, 2, 4, 0.341, 0.86, 0.75, 0.02, 0.54}, 0.252, 0.95},
};
/// The rest of a launch in such a graph.
constexpr double kLaunch = 1.0;

struct Kind {
  llvm::StringRef id;
  llvm::StringRef kernel;    // conv_<kernel>, matmul_<kernel>
  llvm::StringRef precision; // what multipliedAs() says
  int64_t bytes;             // of an element
  llvm::ArrayRef<Tiles> tiles;
  llvm::ArrayRef<Parts> parts;
  llvm::ArrayRef<Tiles> views; // where B is no constant; none: `tiles`
  llvm::StringRef stored = {}; // how constants are (ir/ops/constant.cpp)
  int64_t storedParts = 1;
};
constexpr Kind k16 = {"contract_wgmma_sm90a", "wgmma_sm90", "", 2, kHalves, kParts, {}};
constexpr Kind kInt8 = {"contract_int8_sm90a", "int8_sm90", "", 1, kBytes, kByteParts, {}};
constexpr Kind kTf32 = {"contract_tf32_sm90a", "wgmma_sm90", "tf32", 4, kRounded,
                        kRoundedParts,         {},           "tf32"};
constexpr Kind kTf32x3 = {"contract_tf32x3_sm90a",
                          "tf32x3_sm90",
                          "tf32x3",
                          4,
                          kFloats,
                          kFloatParts,
                          kFloatViews,
                          "tf32x3",
                          2};

llvm::ArrayRef<Tiles> tilesOf(const Kind &kind, const Contraction &c) {
  return c.isPacked || kind.views.empty() ? kind.tiles : kind.views;
}

/// Tile along K: a row of it is 32, 64 or 128 bytes of one tap's channels; groups share none.
int64_t tileK(const Kind &kind, const Contraction &c) {
  const int64_t most = 128 / kind.bytes;
  if (!c.isConv)
    return most;
  for (int64_t k : {most, most / 2, most / 4})
    if (c.conv.groups > 1 ? c.conv.channels % k == 0 : c.conv.channels > k / 2)
      return k;
  return c.conv.groups > 1 ? 0 : most / 4;
}

/// Whether a tensor map describes these strides: `along` is contiguous, the others are multiples of
/// 16 bytes. Strides of extents of one element do not count.
bool hasMap(const Kind &kind, const Strides &s, llvm::ArrayRef<Dim> extents, unsigned along) {
  for (unsigned d = 0; d < extents.size(); ++d) {
    const Dim stride = s.strides[d];
    if (d == along ? !stride.isConstant(1)
                   : !extents[d].isConstant(1) &&
                         !(stride.isConstant() && stride.constant() * kind.bytes % 16 == 0))
      return false;
  }
  return true;
}

/// Whether `operand` starts at a multiple of 16 bytes.
bool startsAligned(const TacticInput &in, const Value *argument, Dim offset) {
  return in.alignment &&
         in.alignment->isKnown(in.form.group->operand(argument->index()), offset, 16);
}

/// The limits of maps that read columns of pixels: corners and distances of taps in 8 bits, in 5 of
/// volumes; steps of up to 8.
bool fitsColumns(const ConvProblem &p) {
  const int64_t half = p.isVolume() ? 16 : 128;
  auto fits = [half](Dim in, Dim out, int64_t kernel, int64_t stride, int64_t dilation,
                     int64_t pad) {
    if (!in.isConstant() || !out.isConstant())
      return false;
    const int64_t upper = (out.constant() - 1) * stride + 1 - in.constant() - pad;
    return pad <= half && upper >= -half && upper < half && stride <= 8 &&
           (kernel - 1) * dilation < 2 * half;
  };
  if (p.isVolume() && !fits(p.inDepth, p.outDepth, p.kernelD, p.strideD, p.dilationD, p.padFront))
    return false;
  return fits(p.inHeight, p.outHeight, p.kernelH, p.strideH, p.dilationH, p.padTop) &&
         fits(p.inWidth, p.outWidth, p.kernelW, p.strideW, p.dilationW, p.padLeft);
}

bool matchA(const Kind &kind, const TacticInput &in, const Contraction &c, std::string &why) {
  const ScalarProgram &program = in.form.anchorInputs[0];
  const Access &x = program.inputs[c.mainInput];
  const auto rank = unsigned(program.space.size());
  const Strides s = stridesOf(x, rank);
  const unsigned k = c.isConv ? 1 : rank - (c.transA ? 2 : 1);
  // Of a product in 16 bits either dimension may be the contiguous one.
  const unsigned m = rank - (c.transA ? 1 : 2);
  const bool either = !c.isConv && !c.hasPrologue && kind.bytes == 2;
  if (!hasMap(kind, s, program.space, k) && !(either && hasMap(kind, s, program.space, m))) {
    why = c.isConv ? "an input without contiguous channels or with rows that no tensor map takes"
                   : "a first operand whose rows no tensor map takes";
    return false;
  }
  if (!startsAligned(in, x.source, s.offset)) {
    why = "an input that need not start at a multiple of 16 bytes";
    return false;
  }
  return true;
}

bool matchB(const Kind &kind, const TacticInput &in, const Contraction &c, std::string &why) {
  if (c.isPacked)
    return true;
  const ScalarProgram &program = in.form.anchorInputs[1];
  const auto rank = unsigned(program.space.size());
  const Strides s = stridesOf(program.inputs[0], rank);
  const unsigned k = rank - (c.transB ? 1 : 2), n = rank - (c.transB ? 2 : 1);
  if (!hasMap(kind, s, program.space, k) &&
      !(kind.bytes == 2 && hasMap(kind, s, program.space, n))) {
    why = "a second operand whose rows no tensor map takes";
    return false;
  }
  if (!startsAligned(in, program.inputs[0].source, s.offset)) {
    why = "a second operand that need not start at a multiple of 16 bytes";
    return false;
  }
  return true;
}

template <const Kind &K> bool usesTensorCores(const TacticInput &in) {
  const Operation *anchor = in.form.anchor;
  const bool bytes = anchor && anchor->isAny(Op::Conv, Op::MatMul) &&
                     !isFloat(anchor->operand(0)->type().element());
  return hasWgmma(in.level) && multipliedAs(in.form) == K.precision && bytes == (K.bytes == 1);
}

/// Whether the element types are those of the kind.
bool suits(const Kind &kind, const TacticInput &in, const Contraction &c, std::string &why) {
  if (kind.bytes == 1) {
    if (!multipliesBytes(in, c, why))
      return false;
    why = "a zero point of the input: the copy engine pads with zeros";
    return c.xZero == 0;
  }
  if (kind.bytes == 4) {
    if (c.a != Element::F32 || c.b != Element::F32) {
      why = "operands that are not both f32";
      return false;
    }
    why = "a second operand that is no constant: it would be cut off to tf32, not rounded";
    return c.isPacked || kind.storedParts == 2;
  }
  why = "operands that are not both fp16 or both bf16";
  return c.a == c.b && (c.b == Element::F16 || c.b == Element::BF16);
}

template <const Kind &K> bool match(const TacticInput &in, std::string &why) {
  if (multipliedAs(in.form) != K.precision) {
    why = "a contraction that is not to multiply so";
    return false;
  }
  if (!hasWgmma(in.level)) {
    why = "wgmma exists on sm_90a only";
    return false;
  }
  auto c = readContraction(in, why);
  if (!c)
    return false;
  if (!suits(K, in, *c, why))
    return false;
  if (c->hasPrologue && !c->onFragments) {
    why = "an input that is computed on the way in where it is padded, or from long vectors";
    return false;
  }
  if (c->isConv && tileK(K, *c) == 0) {
    why = "groups of " + std::to_string(c->conv.channels) + " channels, no multiple of " +
          std::to_string(32 / K.bytes);
    return false;
  }
  if (c->isConv && !fitsColumns(c->conv)) {
    why = "a window beyond the limits of tensor maps, or extents known at run time";
    return false;
  }
  return matchA(K, in, *c, why) && matchB(K, in, *c, why);
}

/// Whether the epilogue reads something that differs from row to row, as a residual does.
bool readsRows(const TacticInput &in) {
  const ScalarProgram &body = in.form.body;
  const auto rank = unsigned(body.space.size());
  return llvm::any_of(body.inputs, [&](const Access &a) {
    const Strides s = stridesOf(a, rank);
    return llvm::count_if(s.strides, [](Dim d) { return !d.isConstant(0); }) > 1;
  });
}

int64_t stepsOf(const Contraction &c, int64_t tileK) {
  const int64_t taps = c.isConv ? c.conv.taps() : 1;
  return taps * int64_t(llvm::divideCeil(c.depth() / taps, tileK));
}

/// Ways to split K over clusters, one part among them: at least two steps a block where it is
/// split.
llvm::SmallVector<int64_t, 4> clustersFor(const TacticInput &in, const Contraction &c,
                                          const Tiles &t, int64_t tileK) {
  const int64_t tiles = c.slices() * int64_t(llvm::divideCeil(c.rows(), t.m)) *
                        int64_t(llvm::divideCeil(c.columns(), t.n));
  llvm::SmallVector<int64_t, 4> splits;
  for (int64_t s = 1; s <= kMostOfCluster; s *= 2)
    if (tiles * s <= 2 * int64_t(in.level.multiprocessors) &&
        (s == 1 || stepsOf(c, tileK) >= 2 * s))
      splits.push_back(s);
  return splits;
}

/// Buffers beside what blocks of a tile send each other: those that leave room for the next
/// kernel's block, too, or where that is one, all.
int64_t stagesBesideSums(const Kind &kind, const Tiles &t) {
  const int64_t sums = t.m * t.n * 4, buffer = (t.m + kind.storedParts * t.n) * 128,
                beside = (kHalfOfShared - sums) / buffer;
  return beside > 1 ? beside : (2 * kHalfOfShared - sums) / buffer;
}

bool hasHalo(const Schedule &s) { return s.get("halo").getValueOr(0) != 0; }

/// Whether a convolution's windows overlap as contract_halo_sm90.cuh wants them.
bool sharesPixels(const Kind &kind, const Contraction &c) {
  const ConvProblem &p = c.conv;
  return kind.bytes == 2 && c.isConv && !c.hasPrologue && !p.isVolume() && p.groups == 1 &&
         p.taps() > 1 && p.strideH == 1 && p.strideW == 1 && p.batch.isConstant();
}

int64_t haloWeightBytes(const Contraction &c, const Halo &t, int64_t tileK) {
  return stepsOf(c, tileK) * t.n * tileK * 2;
}

/// Buffers of a warpgroup that find room beside the weights; 0: none.
int64_t stagesBesideWeights(const TargetLevel &level, const Contraction &c, const Halo &t,
                            int64_t tileK) {
  const ConvProblem &p = c.conv;
  const int64_t width = 8 + (p.kernelW - 1) * p.dilationW,
                height = t.m / 8 + (p.kernelH - 1) * p.dilationH;
  if (width > 256 || height > 256) // of a box
    return 0;
  const int64_t patch = int64_t(llvm::alignTo(uint64_t(width * height * tileK * 2), 1024)),
                barriers = 1024;
  const int64_t room = int64_t(level.sharedBytes) - haloWeightBytes(c, t, tileK) - barriers;
  return std::min<int64_t>(4, room / (t.consumers * patch));
}

/// How many tiles a warpgroup takes, at most.
double halosOfEach(const TargetLevel &level, const Contraction &c, const Halo &t) {
  const ConvProblem &p = c.conv;
  const int64_t columns = int64_t(llvm::divideCeil(c.columns(), t.n));
  const int64_t tiles = p.batch.constant() * int64_t(llvm::divideCeil(p.outWidth.constant(), 8)) *
                        int64_t(llvm::divideCeil(p.outHeight.constant(), t.m / 8));
  const int64_t blocks = std::max<int64_t>(level.multiprocessors / columns, 1);
  return double(llvm::divideCeil(tiles, t.consumers * blocks));
}

template <const Kind &K>
void enumerate(const TacticInput &in, llvm::SmallVectorImpl<Schedule> &out) {
  std::string why;
  const Contraction c = *readContraction(in, why);
  const int64_t k = tileK(K, c);
  const bool roomy = !readsRows(in) && c.depth() * K.bytes >= kLongSum;
  auto add = [&](const Tiles &t, int64_t splits, bool clustered) {
    Schedule s{K.id.str(),
               {{"tile_m", t.m}, {"tile_n", t.n}, {"tile_k", k}, {"consumers", t.consumers}}};
    if (!clustered)
      s.params.push_back({"ping_pong", 0});
    const bool sends = clustered && splits > 1;
    s.params.push_back({"stages", sends ? std::min(t.stages, stagesBesideSums(K, t)) : t.stages});
    s.params.push_back({"splits", splits});
    if (clustered)
      s.params.push_back({"clustered", 1});
    else
      s.params.push_back({"multiprocessors", in.level.multiprocessors});
    out.push_back(std::move(s));
  };
  for (const Tiles &t : tilesOf(K, c)) {
    if (t.crowded && (!roomy || 2 * c.columns() <= t.n))
      continue;
    for (int64_t splits : t.split > 0 ? splitsFor(c, in.level, {t.m, t.n, k, 0, 0, 0})
                                      : llvm::SmallVector<int64_t, 4>{1})
      if (splits <= kMostOfCluster)
        add(t, splits, false);
  }
  if (sharesPixels(K, c))
    for (const Halo &t : kHalos) {
      const int64_t stages = stagesBesideWeights(in.level, c, t, k);
      if (stages < 2 || t.n >= 2 * int64_t(llvm::alignTo(uint64_t(c.columns()), 32)))
        continue;
      out.push_back({K.id.str(),
                     {{"tile_m", t.m},
                      {"tile_n", t.n},
                      {"tile_k", k},
                      {"consumers", t.consumers},
                      {"stages", stages},
                      {"splits", 1},
                      {"halo", 1},
                      {"multiprocessors", in.level.multiprocessors}}});
    }
  if (!c.isPacked && K.storedParts == 2)
    return; // clusters have no warps that split operands
  for (const Parts &t : K.parts)
    for (int64_t splits : clustersFor(in, c, t, k))
      add(t, splits, true);
}

template <class T> const T &rowOf(llvm::ArrayRef<T> rows, const Schedule &s) {
  for (const T &row : rows)
    if (row.m == *s.get("tile_m") && row.n == *s.get("tile_n"))
      return row;
  return rows.front();
}

/// By the clock.
template <const Kind &K> double microsecondsOf(const TacticInput &in, const Schedule &s) {
  std::string why;
  const Contraction c = *readContraction(in, why);
  const auto splits = double(*s.get("splits")), stages = double(*s.get("stages"));
  const int64_t k = *s.get("tile_k");
  const double steps = double(stepsOf(c, k)) / splits;
  const double blocks = double(tileCount(c, s)) * splits / in.level.multiprocessors;
  // Shorter steps save copying, not waiting.
  const double shorter = 0.5 + double(k * K.bytes) / 256;
  auto parting = [&](const Tiles &t) { return splits == 1 ? 0 : t.split + t.perPart * splits; };
  Effort e;
  e.bytes = double(workOf(*in.form.group).bytes);
  if (c.isPacked)
    e.bytes += double((K.storedParts - 1) * c.slices() * c.depth() * c.columns() * K.bytes);
  e.launches = 0;
  const double moving = microseconds(in.level, e);
  double time = 0;
  if (hasHalo(s)) {
    const Halo *t = llvm::find_if(kHalos, [&](const Halo &h) {
      return h.m == *s.get("tile_m") && h.n == *s.get("tile_n") &&
             h.consumers == *s.get("consumers");
    });
    time = halosOfEach(in.level, c, *t) * (steps * t->step * shorter + t->tile) +
           kHaloWeights * double(haloWeightBytes(c, *t, k)) + kHaloTies;
  } else if (isClustered(s)) {
    const Parts &t = rowOf(K.parts, s);
    const double first = std::min(steps, stages);
    const double part = shorter * (t.step * first + t.late * (steps - first)) + t.tile + parting(t);
    time = part * (1 + t.sharing * std::max(0.0, blocks - 0.5)) + t.moving * moving;
  } else {
    const Tiles &t = rowOf(tilesOf(K, c), s);
    time = std::ceil(blocks) * (steps * t.step * shorter + t.tile + parting(t)) + t.moving * moving;
  }
  return kLaunch + std::max(time, moving);
}

template <const Kind &K> double cost(const TacticInput &in, const Schedule &s) {
  std::string why;
  // gemv's estimates are not among those: a row or two must be faster by the clock. Nor are those
  // of f32's other tactics.
  const bool scaled = K.bytes != 4 && readContraction(in, why)->rows() >= 16;
  return (scaled ? kContractionScale : 1) * microsecondsOf<K>(in, s);
}

/// K-major: conv [filters][taps][channels], matmul [n][k], rows rounded up to 16 bytes.
template <const Kind &K>
void pack(const TacticInput &in, const Schedule &, llvm::SmallVectorImpl<Packing> &out) {
  std::string why;
  const Contraction c = *readContraction(in, why);
  if (!c.isPacked)
    return;
  const Value *source = in.form.anchorInputs[1].inputs[0].source;
  const Type w = source->type();
  const int rank = int(w.rank()), n = c.isConv ? 0 : rank - (c.transB ? 2 : 1),
            k = c.isConv ? 1 : rank - (c.transB ? 1 : 2);
  const int64_t depth = w.dim(unsigned(k)).constant(),
                pitch = int64_t(llvm::alignTo(uint64_t(depth), 16 / K.bytes));
  llvm::SmallVector<LayoutAxis, 6> axes;
  axes.push_back({n, 0, false, Dim(), 0});
  for (int d = 0; d < rank; ++d)
    if (d != n && d != k)
      axes.push_back({d, 0, false, Dim(), 0});
  axes.push_back({k, 0, false, pitch == depth ? Dim() : w.context().dim(pitch), 0});
  out.push_back({source->index(), Layout::get(w.context(), axes), K.stored.str()});
}

/// Each consumer counts for itself.
int64_t counterBytes(const TacticInput &in, const Schedule &s) {
  return splitCounterBytes(in, s) * *s.get("consumers");
}

template <const Kind &K> void emit(const TacticInput &in, const Schedule &s, StepWriter &out) {
  llvm::StringRef header = "wgmma_sm90", kernel = K.kernel;
  if (hasHalo(s))
    header = kernel = "halo_sm90";
  else if (isClustered(s))
    header = kernel = "cluster_sm90";
  out.include("cuda/contract_" + header.str() + ".cuh");
  out.letShapeVary();
  emitContraction(in, s, out, kernel, K.storedParts == 2 ? "packed_parts" : "packed_weights");
}

template <const Kind &K> constexpr Tactic tactic(llvm::StringRef summary) {
  Tactic t = {K.id,    summary,           match<K>, enumerate<K>, cost<K>,
              pack<K>, splitPartialBytes, emit<K>,  counterBytes, usesTensorCores<K>};
  t.clock = microsecondsOf<K>;
  return t;
}

} // namespace

const Tactic kContractWgmmaSm90a =
    tactic<k16>("fp16 and bf16 contraction by warpgroups on Tensor Cores");
const Tactic kContractInt8Sm90a =
    tactic<kInt8>("contraction of bytes by warpgroups on Tensor Cores, exact 32-bit sums");
const Tactic kContractTf32Sm90a =
    tactic<kTf32>("f32 contraction in tf32 by warpgroups on Tensor Cores");
const Tactic kContractTf32x3Sm90a =
    tactic<kTf32x3>("f32 contraction by three products in tf32 by warpgroups, as exact as fp32");

} // namespace tenon::cuda
