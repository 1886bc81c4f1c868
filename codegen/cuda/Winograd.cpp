// Defines the tactic `conv_winograd`: true fp32 convolutions of 3 x 3 taps at stride 1 with fewer
// multiplications (runtime/cuda/winograd.cuh).
#include "codegen/cuda/Tactics.h"

#include "codegen/Work.h"
#include "codegen/cuda/Contraction.h"

#include "llvm/Support/MathExtras.h"

#include <cmath>

namespace tenon::cuda {
namespace {

/// A schedule's tiles and what they cost in microseconds on one H200, as in ContractSimt.cpp.
struct Tiles {
  int64_t tileT, tileN, tileC, warps, stages;
  int together;
  double latency, throughput, block, split, perPart;
};

/// Source: fitted to bench/gemm.cu on one H200 (CUDA 13.0; ResNet-50 and UNet at batch 1 and 8,
/// DenseNet-121 at batch 1): rms error 2 to 5 %, 15 % of the last; what the estimates choose is the
/// fastest in all 38 layers.
constexpr Tiles kTiles[] = {
    {32, 64, 8, 8, 3, 1, 2.412, 0.810, 2.98, 2.74, 1.06},
    {32, 32, 8, 8, 3, 1, 1.689, 0.792, 1.72, 1.58, 0.53},
    {16, 32, 16, 8, 3, 1, 1.821, 0.059, 0.94, 1.33, 0.42},
    {16, 32, 8, 8, 3, 2, 1.077, 0.709, 1.50, 2.57, 0.01},
};
constexpr double kLaunch = 1.0;

/// Buffers of shared memory, two at least; 0 where they do not fit. As winograd_kernel has it.
int64_t stagesOf(const Tiles &t, const TargetLevel &level) {
  for (int64_t stages = t.stages; stages >= 2; --stages)
    if (4 * std::max(stages * 16 * t.tileC * (t.tileT + 4 + t.tileN), 16 * t.tileT * 36) <=
        int64_t(level.sharedBytes))
      return stages;
  return 0;
}
int64_t tilesOf(const ConvProblem &p, int64_t tileT, int64_t tileN) {
  return ceilDiv(p.batch.upper() * ceilDiv(p.outHeight.upper(), 2) * ceilDiv(p.outWidth.upper(), 2),
                 tileT) *
         ceilDiv(p.filters, tileN);
}
int64_t tilesOf(const TacticInput &in, const Schedule &s) {
  std::string why;
  return tilesOf(readContraction(in, why)->conv, *s.get("tile_t"), *s.get("tile_n"));
}

bool match(const TacticInput &in, std::string &why) {
  const auto c = readContraction(in, why);
  if (!c)
    return false;
  const ConvProblem &p = c->conv;
  if (c->b != Element::F32 || in.form.anchor->operand(0)->type().element() != Element::F32 ||
      computeElement(c->a) != Element::F32)
    why = "operands that are not f32";
  else if (!c->isConv || p.isVolume() || p.kernelH != 3 || p.kernelW != 3)
    why = "no convolution of 3x3 taps";
  else if (p.strideH != 1 || p.strideW != 1 || p.dilationH != 1 || p.dilationW != 1)
    why = "strides or dilations";
  else if (p.groups != 1)
    why = "groups";
  else if (in.form.anchor->operand(1)->type().rank() != 4)
    why = "one spatial dimension";
  else
    return true;
  return false;
}

void enumerate(const TacticInput &in, llvm::SmallVectorImpl<Schedule> &out) {
  std::string why;
  const ConvProblem p = readContraction(in, why)->conv;
  for (const Tiles &t : kTiles) {
    const int64_t stages = stagesOf(t, in.level);
    if (stages == 0)
      continue;
    const int64_t tiles = tilesOf(p, t.tileT, t.tileN), steps = ceilDiv(p.channels, t.tileC);
    for (int64_t splits : {1, 2, 4, 8, 16})
      if (splits == 1 ||
          (tiles * splits <= 2 * int64_t(in.level.multiprocessors) && steps >= 4 * splits))
        out.push_back({"conv_winograd",
                       {{"tile_t", t.tileT},
                        {"tile_n", t.tileN},
                        {"tile_c", t.tileC},
                        {"warps", t.warps},
                        {"stages", stages},
                        {"splits", splits},
                        {"least_shared", leastShared(in.level, tiles * splits)}}});
  }
}

double cost(const TacticInput &in, const Schedule &s) {
  std::string why;
  const Contraction c = *readContraction(in, why);
  const Tiles *t = std::begin(kTiles);
  for (const Tiles &row : kTiles)
    if (row.tileT == *s.get("tile_t") && row.tileN == *s.get("tile_n") &&
        row.tileC == *s.get("tile_c") && row.warps == *s.get("warps"))
      t = &row;
  const auto splits = double(*s.get("splits"));
  const double blocks = double(tilesOf(c.conv, t->tileT, t->tileN)) * splits;
  const double steps = std::ceil(double(ceilDiv(c.conv.channels, t->tileC)) / splits);
  // Rounds of blocks that share a multiprocessor, as in ContractSimt.cpp.
  const double share = blocks / in.level.multiprocessors;
  const double crowded = t->together == 1 ? share : 1.2 * share + 0.3 * std::min(1.0, share);
  const double each = std::ceil(crowded), rounds = std::floor(each / t->together),
               rest = each - rounds * t->together;
  double step = rounds * std::max(t->latency, t->together * t->throughput);
  if (rest > 0)
    step += std::max(t->latency, rest * t->throughput);
  constexpr double kMeasured = 51e3 / 132; // GFLOP/s of a multiprocessor of an H200
  const double slowdown =
      std::max(1.0, kMeasured / (in.level.peakGflops / in.level.multiprocessors));
  const double time = steps * step * slowdown + t->block * std::ceil(each / t->together) +
                      (splits > 1 ? t->split + t->perPart * splits : 0);
  Effort e;
  // 16 numbers are stored for 9 taps.
  e.bytes =
      double(workOf(*in.form.group).bytes) + 7.0 * 4 * double(c.conv.channels * c.conv.filters);
  e.launches = 0;
  const double tie = multipliedAs(in.form).empty() ? 1 : 1.2; // as in ContractSimt.cpp
  return tie * (kLaunch + std::hypot(time, microseconds(in.level, e) + 0.3));
}

/// [ceil(filters/tile_n)][channels][4][4][tile_n]
void pack(const TacticInput &in, const Schedule &s, llvm::SmallVectorImpl<Packing> &out) {
  const Value *source = in.form.anchorInputs[1].inputs[0].source;
  Context &context = source->type().context();
  const int64_t tile = *s.get("tile_n");
  const LayoutAxis axes[] = {{0, tile, false, Dim(), 0},
                             {1, 0, false, Dim(), 0},
                             {2, 0, false, context.dim(4), 0},
                             {3, 0, false, context.dim(4), 0},
                             {0, tile, true, Dim(), 0}};
  out.push_back({source->index(), Layout::get(context, axes), "winograd"});
}

int64_t partialBytes(const TacticInput &in, const Schedule &s) {
  const int64_t splits = *s.get("splits");
  return splits == 1 ? 0 : tilesOf(in, s) * splits * 16 * *s.get("tile_t") * *s.get("tile_n") * 4;
}
int64_t counterBytes(const TacticInput &in, const Schedule &s) {
  return *s.get("splits") == 1 ? 0 : tilesOf(in, s) * 4;
}

void emit(const TacticInput &in, const Schedule &s, StepWriter &out) {
  out.include("cuda/winograd.cuh");
  out.letShapeVary();
  emitContraction(in, s, out, "winograd");
}

} // namespace

const Tactic kConvWinograd = {"conv_winograd",
                              "fp32 convolution of 3x3 taps at stride 1 by Winograd's F(2x2, 3x3)",
                              match,
                              enumerate,
                              cost,
                              pack,
                              partialBytes,
                              emit,
                              counterBytes};

} // namespace tenon::cuda
