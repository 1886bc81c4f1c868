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
  int teams, together;
  double latency, throughput, block, split, perPart;
};

/// Source: fitted to bench/gemm.cu on one H200 (CUDA 13.0, fp32; the products of four networks at
/// batch 1, of two at batch 8): rms error 3 to 11 % (16 % of the last two); what the estimates
/// choose is 4 % slower than the fastest.
constexpr Tiles kTiles[] = {
    {{128, 128, 16, 8, 8, 3}, 1, 1, 1.600, 0.642, 1.87, 1.83, 0.39},
    {{128, 96, 32, 8, 8, 3}, 2, 1, 2.301, 0.166, 1.66, 1.59, 0.38},
    {{64, 128, 16, 8, 8, 3}, 1, 5, 0.861, 0.774, 1.06, 1.53, 0.55},
    {{128, 64, 16, 8, 8, 3}, 1, 5, 0.895, 0.789, 1.39, 1.70, 0.39},
    {{64, 96, 32, 8, 8, 3}, 4, 1, 1.250, 1.001, 1.51, 1.32, 0.22},
    {{64, 64, 32, 8, 8, 3}, 4, 1, 0.875, 0.492, 1.19, 1.31, 0.18},
    {{64, 64, 32, 8, 4, 3}, 2, 3, 0.903, 0.687, 1.00, 1.84, 0.01},
    {{64, 48, 32, 8, 4, 4}, 4, 1, 0.375, 0.739, 1.03, 0.87, 0.16},
    {{32, 48, 64, 4, 4, 3}, 4, 1, 0.546, 0.759, 0.94, 0.51, 0.37},
    {{32, 32, 64, 4, 4, 3}, 4, 3, 0.524, 0.389, 1.01, 1.17, 0.01},
    {{64, 16, 16, 2, 4, 3}, 1, 3, 0.243, 0.175, 0.00, 1.01, 0.62},
    {{16, 64, 32, 2, 4, 3}, 1, 3, 0.368, 0.276, 0.10, 1.61, 0.01},
};
/// The rest of a launch in such a graph.
constexpr double kLaunch = 1.0;

/// As contract_simt_kernel has it.
int64_t sharedBytes(const Tiles &tiles) {
  const ContractionTiles &t = tiles.shape;
  return 4 * std::max(t.stages * (t.tileM * (t.tileK + 4) + t.tileK * t.tileN),
                      (tiles.teams - 1) * t.tileM * t.tileN);
}

bool match(const TacticInput &in, std::string &why) {
  auto c = readContraction(in, why);
  if (!c || !multipliesInF32(in, *c, why))
    return false;
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
    if ((c.isPacked && !packsIn(c, t.tileN)) || sharedBytes(tiles) > int64_t(in.level.sharedBytes))
      continue;
    for (int64_t splits : splitsFor(c, in.level, t)) {
      Schedule s{"contract_simt",
                 {{"tile_m", t.tileM},
                  {"tile_n", t.tileN},
                  {"tile_k", t.tileK},
                  {"thread_m", t.partM},
                  {"thread_n", t.partN},
                  {"stages", t.stages},
                  {"splits", splits},
                  {"teams", tiles.teams}}};
      s.params.push_back({"least_shared", leastShared(in.level, tileCount(c, s) * splits)});
      out.push_back(std::move(s));
    }
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
    if (row.shape.tileM == *s.get("tile_m") && row.shape.tileN == *s.get("tile_n") &&
        row.teams == *s.get("teams"))
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
  out.letShapeVary();
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
