// Defines the tactics `contract_tf32_sm80` and `contract_tf32x3_sm80`: convolutions and matrix
// products of f32 on Tensor Cores, for contractions that say so (`precision`), by one product in
// tf32 or by three that are as exact as fp32 (runtime/cuda/contract_tf32_sm80.cuh). From sm_80 on.
#include "codegen/cuda/Tactics.h"

#include "codegen/Work.h"
#include "codegen/cuda/Contraction.h"

namespace tenon::cuda {
namespace {

/// A schedule's tiles and what they cost in microseconds on one H200: of each step along K, while
/// the blocks on a multiprocessor are few (`latency`) and for each of many (`throughput`); of each
/// block, epilogue and the pipeline's filling included; where K is split, of the tile and of each
/// part. `together` blocks fit on a multiprocessor.
struct Tiles {
  ContractionTiles shape;
  int together;
  double latency, throughput, block, split, perPart;
};

/// Source: fitted to the times of these schedules on one H200 (CUDA 13.0; medians in a graph of 20
/// launches with early starts; 14 layers of ResNet-50, ConvNeXt, DenseNet and a UNet at batch 1 and
/// 8): rms error 3 to 23 %; what the estimates choose is 2 % (tf32x3) and 4 % (tf32) slower than
/// the fastest.
constexpr Tiles kTf32[] = {
    {{128, 64, 32, 64, 32, 3}, 2, 0.537, 0.443, 2.66, 1.60, 0.38},
    {{64, 64, 32, 32, 32, 4}, 3, 0.385, 0.320, 1.58, 1.99, 0.18},
    {{64, 64, 32, 16, 32, 4}, 2, 0.472, 0.374, 1.87, 1.48, 0.05},
    {{64, 32, 32, 16, 32, 4}, 4, 0.307, 0.272, 1.28, 2.37, 0},
    {{32, 64, 32, 16, 32, 4}, 4, 0.305, 0.270, 1.18, 2.34, 0},
    {{32, 32, 32, 16, 16, 4}, 6, 0.226, 0.188, 0.79, 2.27, 0},
    {{16, 64, 64, 16, 16, 3}, 3, 0.441, 0.277, 0.87, 1.35, 0.23},
};
constexpr Tiles kTf32x3[] = {
    {{128, 64, 32, 64, 32, 3}, 2, 1.307, 1.039, 3.16, 2.24, 0.44},
    {{64, 64, 32, 32, 32, 4}, 2, 0.783, 0.582, 1.64, 1.40, 0.25},
    {{64, 64, 32, 16, 32, 4}, 1, 0.728, 0.728, 1.55, 1.17, 0.09},
    {{64, 32, 32, 16, 32, 4}, 3, 0.522, 0.404, 0.53, 2.88, 0},
    {{32, 64, 32, 16, 32, 4}, 2, 0.525, 0.399, 0.29, 2.93, 0},
    {{32, 32, 32, 16, 16, 4}, 4, 0.368, 0.310, 0.20, 2.73, 0},
    {{16, 64, 64, 16, 16, 3}, 2, 0.655, 0.444, 0.60, 1.62, 0},
};
/// The rest of a launch in such a graph.
constexpr double kLaunch = 1.0;

struct Kind {
  llvm::StringRef id;
  llvm::StringRef kernel;    // conv_<kernel>, matmul_<kernel>
  llvm::StringRef precision; // what multipliedAs() says
  llvm::ArrayRef<Tiles> tiles;
};
constexpr Kind kOne = {"contract_tf32_sm80", "tf32_sm80", "tf32", kTf32};
constexpr Kind kThree = {"contract_tf32x3_sm80", "tf32x3_sm80", "tf32x3", kTf32x3};

template <const Kind &K> bool match(const TacticInput &in, std::string &why) {
  if (multipliedAs(in.form) != K.precision) {
    why = "a contraction that is not to multiply in " + K.precision.str();
    return false;
  }
  if (!isMachineOf(kMmaSm80, in.level)) {
    why = "written for other machines than " + in.level.name.str();
    return false;
  }
  auto c = readContraction(in, why);
  if (!c)
    return false;
  if (c->b != Element::F32 || !loadsIntoF32(*c) || (c->a != Element::F32 && !c->hasPrologue)) {
    why = "an operand that is stored as " + name(c->b != Element::F32 ? c->b : c->a).str();
    return false;
  }
  return true;
}

template <const Kind &K>
void enumerate(const TacticInput &in, llvm::SmallVectorImpl<Schedule> &out) {
  std::string why;
  const Contraction c = *readContraction(in, why);
  for (const Tiles &t : K.tiles)
    for (int64_t splits : splitsFor(c, in.level, t.shape))
      if (splits <= 8) {
        Schedule s{K.id.str(),
                   {{"tile_m", t.shape.tileM},
                    {"tile_n", t.shape.tileN},
                    {"tile_k", t.shape.tileK},
                    {"warp_m", t.shape.partM},
                    {"warp_n", t.shape.partN},
                    {"stages", t.shape.stages},
                    {"splits", splits},
                    {"teams", 1}}};
        s.params.push_back({"least_shared", leastShared(in.level, tileCount(c, s) * splits)});
        out.push_back(std::move(s));
      }
}

/// How long a step takes beside an H200, by the Tensor Cores of a multiprocessor. Hopper's reach
/// 0.6 of their peak by these instructions, others all of it. Unmeasured.
double slowdown(const TargetLevel &level) {
  constexpr double kMeasured = 0.6 * 743 / 132;
  const double share = level.sm == 90 ? 0.6 : 1;
  return kMeasured / (share * level.tensorTflops / level.multiprocessors);
}

/// Whether runs of 16 bytes of both operands are neighbours along K. Others are copied word by
/// word.
bool hasWholeRuns(const Contraction &c) {
  return (c.isConv ? c.conv.channels : c.depth()) % 4 == 0;
}

template <const Kind &K> double cost(const TacticInput &in, const Schedule &s) {
  std::string why;
  const Contraction c = *readContraction(in, why);
  const Tiles *t = K.tiles.begin();
  for (const Tiles &row : K.tiles)
    if (row.shape.tileM == *s.get("tile_m") && row.shape.tileN == *s.get("tile_n") &&
        row.shape.partM == *s.get("warp_m"))
      t = &row;
  const auto splits = double(*s.get("splits"));
  const double blocks = double(tileCount(c, s)) * splits;
  const double steps = std::ceil(std::ceil(double(c.depth()) / double(t->shape.tileK)) / splits);
  // Rounds of blocks that share a multiprocessor, the last of fewer.
  const double each = std::ceil(blocks / in.level.multiprocessors),
               rounds = std::floor(each / t->together), rest = each - rounds * t->together;
  double step = rounds * std::max(t->latency, t->together * t->throughput);
  if (rest > 0)
    step += std::max(t->latency, rest * t->throughput);
  step *= slowdown(in.level) * (hasWholeRuns(c) ? 1 : 1.5);
  const double time = steps * step + t->block * std::ceil(each / t->together) +
                      (splits > 1 ? t->split + t->perPart * splits : 0);
  Effort e;
  e.bytes = double(workOf(*in.form.group).bytes);
  e.blocks = blocks;
  e.launches = 0;
  return kLaunch + std::max(time, microseconds(in.level, e));
}

/// Rows along K: of 4-byte elements ldmatrix takes no others.
void pack(const TacticInput &in, const Schedule &, llvm::SmallVectorImpl<Packing> &out) {
  packContractionRows(in, out);
}

template <const Kind &K> void emit(const TacticInput &in, const Schedule &s, StepWriter &out) {
  out.include("cuda/contract_tf32_sm80.cuh");
  out.letShapeVary();
  emitContraction(in, s, out, K.kernel, "k_major_weights");
}

template <const Kind &K> bool usesTensorCores(const TacticInput &in) {
  return isMachineOf(kMmaSm80, in.level) && multipliedAs(in.form) == K.precision;
}

template <const Kind &K> constexpr Tactic tactic(llvm::StringRef summary) {
  return {K.id, summary,           match<K>, enumerate<K>,      cost<K>,
          pack, splitPartialBytes, emit<K>,  splitCounterBytes, usesTensorCores<K>};
}

} // namespace

const Tactic kContractTf32Sm80 = tactic<kOne>("f32 contraction in tf32 on Tensor Cores");
const Tactic kContractTf32x3Sm80 =
    tactic<kThree>("f32 contraction by three products in tf32, as exact as fp32");

} // namespace tenon::cuda
