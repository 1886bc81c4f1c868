// Defines the tactics `contract_mma_sm75` and `contract_mma_sm80`: convolutions and matrix products
// with fp32 accumulation on Tensor Cores (runtime/cuda/contract_mma.cuh), for tensors that are
// stored in 16 bits: fp16, and bf16 from sm_80 on. And `contract_int8_sm75` and
// `contract_int8_sm80`: the same of bytes with exact 32-bit sums (runtime/cuda/contract_int8.cuh).
// Each generation serves the machines up to the next.
#include "codegen/cuda/Tactics.h"

#include "codegen/Work.h"
#include "codegen/cuda/Contraction.h"

#include <cmath>

namespace tenon::cuda {
namespace {

/// A schedule's tiles, along K in elements of 16 bits, and what they cost in microseconds on one
/// H200: of each step along K, while the blocks on a multiprocessor are few (`latency`) and for
/// each of many (`throughput`); of each block, epilogue and the pipeline's filling included; where
/// K is split, of the tile and of each part. `together` blocks fit on a multiprocessor.
struct Tiles {
  ContractionTiles shape;
  int teams, together;
  double latency, throughput, block, split, perPart;
};

/// Source: fitted to bench/gemm.cu on one H200 (CUDA 13.0, fp16): 40 layers with constant extents
/// (bench/gemm/schedules_mma_h200.csv) and, weighing little, the products of eight networks; rms
/// error 7 to 10 % (18 % of the smallest tiles); what the estimates choose is 3 % slower than the
/// fastest. The first is for products that fill the machine.
constexpr Tiles kTiles[] = {
    {{128, 256, 32, 64, 64, 4}, 1, 1, 0.617, 0.000, 3.708, 3.52, 1.15},
    {{256, 64, 32, 64, 64, 4}, 1, 2, 0.145, 0.390, 2.633, 3.69, 0.54},
    {{128, 128, 32, 64, 32, 3}, 1, 1, 0.450, 0.382, 2.187, 3.13, 0.38},
    {{128, 128, 64, 64, 64, 3}, 2, 1, 0.678, 0.059, 3.237, 4.40, 0.48},
    {{64, 128, 64, 64, 64, 3}, 2, 2, 0.451, 0.421, 1.879, 3.36, 0.27},
    {{128, 64, 32, 32, 32, 3}, 1, 2, 0.347, 0.284, 1.045, 2.62, 0.16},
    {{64, 64, 64, 64, 64, 4}, 4, 2, 0.252, 0.220, 1.841, 1.39, 0.19},
    {{64, 64, 64, 32, 32, 4}, 2, 2, 0.272, 0.254, 1.087, 1.73, 0.11},
    {{64, 64, 32, 32, 32, 4}, 1, 4, 0.202, 0.179, 0.798, 1.86, 0.21},
    {{64, 32, 64, 32, 16, 3}, 1, 6, 0.221, 0.310, 0.403, 0.86, 0.28},
    {{32, 64, 128, 32, 32, 3}, 2, 3, 0.372, 0.320, 0.893, 1.65, 0.08},
    {{32, 64, 64, 16, 32, 3}, 1, 5, 0.271, 0.247, 0.304, 1.86, 0.10},
    {{64, 16, 64, 16, 16, 3}, 1, 7, 0.230, 0.172, 0.606, 1.27, 0.29},
};
/// The rest of a launch in such a graph.
constexpr double kLaunch = 1.0;
/// Estimates of other tactics, and those of wgmma by kContractionScale, compare with measurements
/// in whole networks, where these kernels lose more than by the clock.
constexpr double kScale = 0.85;

struct Generation {
  llvm::StringRef id;
  llvm::StringRef kernel; // conv_<kernel>, matmul_<kernel>
  llvm::StringRef header;
  MmaGeneration machines;
  int64_t stages;      // at most
  int64_t perWord = 1; // elements in 16 bits
  bool isOfBytes() const { return perWord == 2; }
};
constexpr Generation kSm75 = {"contract_mma_sm75", "mma_sm75", "cuda/contract_mma_sm75.cuh",
                              kMmaSm75, 2};
constexpr Generation kSm80 = {"contract_mma_sm80", "mma_sm80", "cuda/contract_mma_sm80.cuh",
                              kMmaSm80, 4};
// An instruction takes as long for 32 bytes along K as for 16 elements of 16 bits.
constexpr Generation kBytesSm75 = {
    "contract_int8_sm75", "int8_sm75", "cuda/contract_int8.cuh", kMmaSm75, 2, 2};
constexpr Generation kBytesSm80 = {
    "contract_int8_sm80", "int8_sm80", "cuda/contract_int8.cuh", kMmaSm80, 4, 2};

template <const Generation &G> bool match(const TacticInput &in, std::string &why) {
  auto c = readContraction(in, why);
  if (!c)
    return false;
  return G.isOfBytes() ? multipliesBytesOn(G.machines, in, *c, why)
                       : multipliesOn(G.machines, in, *c, why);
}

template <const Generation &G>
void enumerate(const TacticInput &in, llvm::SmallVectorImpl<Schedule> &out) {
  std::string why;
  const Contraction c = *readContraction(in, why);
  for (const Tiles &tiles : kTiles) {
    ContractionTiles t = tiles.shape;
    if (c.isPacked && !G.isOfBytes() && !packsInRows(c) && !packsIn(c, t.tileN))
      continue;
    const int64_t stages = std::min(t.stages, G.stages);
    t.tileK *= G.perWord;
    if (stages * (t.tileM + t.tileN) * tiles.shape.tileK * 2 > int64_t(in.level.sharedBytes) ||
        (t.partM * t.partN > 2048 && G.stages == 2))
      continue;
    for (int64_t splits : splitsFor(c, in.level, t)) {
      Schedule s{G.id.str(),
                 {{"tile_m", t.tileM},
                  {"tile_n", t.tileN},
                  {"tile_k", t.tileK},
                  {"warp_m", t.partM},
                  {"warp_n", t.partN},
                  {"stages", stages},
                  {"splits", splits},
                  {"teams", tiles.teams}}};
      s.params.push_back({"least_shared", leastShared(in.level, tileCount(c, s) * splits)});
      out.push_back(std::move(s));
    }
  }
}

/// How long a step takes beside an H200, by the Tensor Cores of a multiprocessor. Hopper's reach
/// 0.6 of their peak by these instructions, others all of it. Unmeasured.
double slowdown(const TargetLevel &level) {
  constexpr double kMeasured = 0.6 * 743 / 132;
  const double share = level.sm == 90 ? 0.6 : 1;
  return std::max(1.0, kMeasured / (share * level.tensorTflops / level.multiprocessors));
}

/// What copying A element by element costs a step, where no runs of 16 bytes are neighbours along
/// K. Source: first layers and depthwise convolutions of bench/tuned_h200.csv; of bytes unmeasured:
/// words of four are copied as such, others take twice as long as elements of 16 bits.
double singleElements(const Contraction &c, bool bytes) {
  if (c.isConv && c.conv.isDepthwise())
    return bytes ? 9.2 : 4.6;
  const int64_t neighbours = c.isConv ? c.conv.channels : c.depth();
  if (bytes)
    return neighbours % 16 == 0 ? 1 : neighbours % 4 == 0 ? 2 : 4;
  return neighbours % 8 == 0 ? 1 : 2;
}

/// By the clock.
template <const Generation &G> double microsecondsOf(const TacticInput &in, const Schedule &s) {
  std::string why;
  const Contraction c = *readContraction(in, why);
  const Tiles *t = std::begin(kTiles);
  for (const Tiles &row : kTiles)
    if (row.shape.tileM == *s.get("tile_m") && row.shape.tileN == *s.get("tile_n") &&
        row.shape.tileK * G.perWord == *s.get("tile_k") && row.teams == *s.get("teams"))
      t = &row;
  const auto splits = double(*s.get("splits"));
  const double blocks = double(tileCount(c, s)) * splits;
  const double steps =
      std::ceil(std::ceil(double(c.depth()) / double(t->shape.tileK * G.perWord)) / splits);
  // Rounds of blocks that share a multiprocessor, the last of fewer.
  const double each = std::ceil(blocks / in.level.multiprocessors),
               rounds = std::floor(each / t->together), rest = each - rounds * t->together;
  double step = rounds * std::max(t->latency, t->together * t->throughput);
  if (rest > 0)
    step += std::max(t->latency, rest * t->throughput);
  // Rescaling integers takes longer than what follows sums of floats.
  const double block = t->block * (G.isOfBytes() ? 1.5 : 1);
  const double time = steps * step * slowdown(in.level) * singleElements(c, G.isOfBytes()) +
                      block * std::ceil(each / t->together) +
                      (splits > 1 ? t->split + t->perPart * splits : 0);
  Effort e;
  e.bytes = double(workOf(*in.form.group).bytes);
  e.launches = 0;
  // What is moved hides behind what is multiplied in part.
  return kLaunch + std::hypot(time, microseconds(in.level, e) + 0.3);
}

template <const Generation &G> double cost(const TacticInput &in, const Schedule &s) {
  return kScale * microsecondsOf<G>(in, s);
}

template <const Generation &G>
void emit(const TacticInput &in, const Schedule &s, StepWriter &out) {
  out.include(G.header);
  std::string why;
  out.letShapeVary();
  emitContraction(in, s, out, G.kernel,
                  G.isOfBytes() || packsInRows(*readContraction(in, why)) ? "k_major_weights"
                                                                          : "packed_weights");
}

/// Bytes: rows along K, for ldmatrix transposes 16-bit elements only.
template <const Generation &G>
void pack(const TacticInput &in, const Schedule &s, llvm::SmallVectorImpl<Packing> &out) {
  G.isOfBytes() ? packContractionRows(in, out) : packContraction(in, s, out);
}

template <const Generation &G> bool usesTensorCores(const TacticInput &in) {
  const Operation *anchor = in.form.anchor;
  const bool bytes = anchor && anchor->isAny(Op::Conv, Op::MatMul) &&
                     !isFloat(anchor->operand(0)->type().element());
  return isMachineOf(G.machines, in.level) && multipliedAs(in.form).empty() &&
         bytes == G.isOfBytes();
}

template <const Generation &G> constexpr Tactic tactic(llvm::StringRef summary) {
  Tactic t = {G.id,    summary,           match<G>, enumerate<G>,      cost<G>,
              pack<G>, splitPartialBytes, emit<G>,  splitCounterBytes, usesTensorCores<G>};
  t.clock = microsecondsOf<G>;
  return t;
}

} // namespace

const Tactic kContractMmaSm75 = tactic<kSm75>("fp16 contraction on the Tensor Cores of sm_75");
const Tactic kContractMmaSm80 = tactic<kSm80>("fp16 and bf16 contraction on Tensor Cores");
const Tactic kContractInt8Sm75 =
    tactic<kBytesSm75>("contraction of bytes on the Tensor Cores of sm_75, exact 32-bit sums");
const Tactic kContractInt8Sm80 =
    tactic<kBytesSm80>("contraction of bytes on Tensor Cores, exact 32-bit sums");

} // namespace tenon::cuda
