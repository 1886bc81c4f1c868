// Defines the tactic `contract_simt`: true fp32 convolutions and matrix products on CUDA cores
// (runtime/cuda/contract_simt.cuh).
#include "codegen/cuda/Tactics.h"

#include "codegen/Work.h"
#include "codegen/cuda/Contraction.h"

#include <cmath>

namespace tenon::cuda {
namespace {

/// A schedule's tiles and what they cost in microseconds on one H200, as in ContractMma.cpp.
struct Tiles {
  ContractionTiles shape; // tile_m, tile_n, tile_k, thread_m, thread_n, stages
  int together;
  double latency, throughput, block, split, perPart;
};

/// Source: fitted to bench/gemm.cu on one H200 (CUDA 13.0, fp32; the products of eight networks at
/// batch 1 and 8): rms error 4 to 15 %; what the estimates choose is 4 % slower than the fastest.
constexpr Tiles kTiles[] = {
    {{128, 128, 16, 8, 8, 3}, 1, 1.577, 0.864, 2.26, 2.39, 0.22},
    {{128, 96, 16, 8, 12, 3}, 2, 1.300, 1.037, 2.12, 3.00, 0.35},
    {{64, 128, 16, 8, 8, 3}, 2, 0.968, 0.761, 0.86, 5.04, 0.14},
    {{128, 64, 16, 8, 8, 3}, 2, 0.931, 0.751, 1.51, 2.68, 0.26},
    {{64, 64, 16, 8, 4, 4}, 3, 0.600, 0.439, 1.04, 0.83, 0.25},
    {{128, 32, 16, 8, 4, 3}, 3, 0.640, 0.477, 1.22, 1.71, 0.15},
    {{64, 32, 16, 4, 4, 3}, 5, 0.362, 0.295, 0.53, 1.83, 0.04},
    {{32, 64, 16, 4, 4, 3}, 5, 0.057, 0.319, 0.42, 2.06, 0.01},
    {{128, 16, 16, 4, 4, 3}, 5, 0.455, 0.343, 0.79, 1.86, 0.07},
    {{32, 32, 32, 2, 4, 3}, 6, 0.437, 0.385, 0.33, 1.38, 0.14},
    {{64, 16, 16, 2, 4, 3}, 7, 0.265, 0.219, 0.36, 1.86, 0.03},
    {{16, 64, 32, 2, 4, 3}, 6, 0.154, 0.404, 0.28, 1.90, 0.00},
};
/// The rest of a launch in such a graph.
constexpr double kLaunch = 1.0;

bool match(const TacticInput &in, std::string &why) {
  auto c = readContraction(in, why);
  if (!c)
    return false;
  auto computesInF32 = [](Element e) { return computeElement(e) == Element::F32; };
  if (!computesInF32(in.form.anchor->operand(0)->type().element()) || !computesInF32(c->b) ||
      (!computesInF32(c->a) && !c->hasPrologue)) {
    why = "operands that are not computed in f32";
    return false;
  }
  if (!packsIn(*c, 16)) {
    why = "groups of " + std::to_string(c->conv.filters) + " filters, which no tile fits";
    return false;
  }
  return true;
}

void enumerate(const TacticInput &in, llvm::SmallVectorImpl<Schedule> &out) {
  std::string why;
  const Contraction c = *readContraction(in, why);
  for (const Tiles &tiles : kTiles) {
    const ContractionTiles &t = tiles.shape;
    if (c.isPacked && !packsIn(c, t.tileN))
      continue;
    for (int64_t splits : splitsFor(c, in.level, t))
      out.push_back({"contract_simt",
                     {{"tile_m", t.tileM},
                      {"tile_n", t.tileN},
                      {"tile_k", t.tileK},
                      {"thread_m", t.partM},
                      {"thread_n", t.partN},
                      {"stages", t.stages},
                      {"splits", splits}}});
  }
}

/// What copying A element by element costs a step, where no runs of 16 bytes are neighbours along
/// K. Source: as of ContractMma.cpp.
double singleElements(const Contraction &c) {
  return (c.isConv ? c.conv.channels : c.depth()) % 4 == 0 ? 1 : 2;
}

double cost(const TacticInput &in, const Schedule &s) {
  std::string why;
  const Contraction c = *readContraction(in, why);
  const Tiles *t = std::begin(kTiles);
  for (const Tiles &row : kTiles)
    if (row.shape.tileM == *s.get("tile_m") && row.shape.tileN == *s.get("tile_n"))
      t = &row;
  const auto splits = double(*s.get("splits"));
  const double blocks = double(tileCount(c, s)) * splits;
  const double steps = std::ceil(std::ceil(double(c.depth()) / double(t->shape.tileK)) / splits);
  // Rounds of blocks that share a multiprocessor, the last of fewer. Where several fit, some get
  // more than their share.
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
  const double time = steps * step * slowdown * singleElements(c) +
                      t->block * std::ceil(each / t->together) +
                      (splits > 1 ? t->split + t->perPart * splits : 0);
  Effort e;
  e.bytes = double(workOf(*in.form.group).bytes);
  e.launches = 0;
  // Where estimates are as good as equal, what Tensor Cores multiply goes there.
  const double tie = bitWidth(c.b) <= 16 || !multipliedAs(in.form).empty() ? 1.2 : 1;
  // What is moved hides behind what is multiplied in part.
  return tie * (kLaunch + std::hypot(time, microseconds(in.level, e) + 0.3));
}

void emit(const TacticInput &in, const Schedule &s, StepWriter &out) {
  out.include("cuda/contract_simt.cuh");
  emitContraction(in, s, out, "simt");
}

} // namespace

const Tactic kContractSimt = {"contract_simt",
                              "fp32 convolution and matrix product on CUDA cores",
                              match,
                              enumerate,
                              cost,
                              packContraction,
                              splitPartialBytes,
                              emit,
                              splitCounterBytes};

} // namespace tenon::cuda
