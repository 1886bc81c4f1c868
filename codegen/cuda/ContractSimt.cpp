// Defines the tactic `contract_simt`: true fp32 convolutions and matrix products on CUDA cores
// (runtime/cuda/contract_simt.cuh).
#include "codegen/cuda/Tactics.h"

#include "codegen/Work.h"
#include "codegen/cuda/Contraction.h"

#include "llvm/Support/MathExtras.h"

namespace tenon::cuda {
namespace {

/// tile_m, tile_n, tile_k, thread_m, thread_n, stages.
constexpr ContractionTiles kTiles[] = {
    {128, 128, 16, 8, 8, 3}, {128, 64, 16, 8, 8, 3}, {64, 64, 16, 4, 8, 3},
    {64, 32, 16, 4, 4, 3},   {32, 64, 16, 4, 4, 3},  {128, 16, 16, 4, 4, 3},
    {32, 32, 32, 2, 4, 3},   {64, 16, 16, 2, 4, 3},  {16, 64, 32, 2, 4, 3},
};

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
  for (const ContractionTiles &t : kTiles) {
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

/// Waves of blocks, each as long as its multiply-adds take on one multiprocessor and at least as
/// long as its steps along K wait for memory.
double cost(const TacticInput &in, const Schedule &s) {
  std::string why;
  const Contraction c = *readContraction(in, why);
  const double tm = double(*s.get("tile_m")), tn = double(*s.get("tile_n")),
               tk = double(*s.get("tile_k"));
  const double partM = double(*s.get("thread_m")), partN = double(*s.get("thread_n"));
  const double splits = double(*s.get("splits"));
  const double blocks = double(tileCount(c, s)) * splits, threads = tm / partM * tn / partN;
  const double steps = std::ceil(double(c.depth()) / tk / splits);
  const double sms = in.level.multiprocessors;
  // Blocks that share a multiprocessor: as many as its shared memory and threads allow.
  const double shared = double(*s.get("stages")) * (tm * (tk + 4) + tk * tn) * 4;
  const double resident =
      std::max(1.0, std::min({in.level.sharedBytes / shared, 1024 / threads, 8.0}));
  const double perMultiprocessor = std::ceil(blocks / sms),
               together = std::min(resident, perMultiprocessor);
  // A multiply-add needs (1/m + 1/n) loads from shared memory; below 512 threads latency shows.
  const double intensity = partM * partN / (partM + partN);
  const double efficiency =
      0.8 * intensity / (intensity + 1) * std::min(1.0, together * threads / 512 + 0.15);
  const double peak = in.level.peakGflops * 1e3 / sms * efficiency; // FLOP per µs
  const double arithmetic = perMultiprocessor * 2 * tm * tn * tk * steps / peak;
  const double latency = std::ceil(perMultiprocessor / resident) * steps * 0.25;
  const double bytes = double(workOf(*in.form.group).bytes) +
                       blocks * steps * tk * (tm + tn) * 4 * 0.25 + // mostly from the L2 cache
                       (splits > 1 ? 2 * blocks * tm * tn * 4 : 0);
  Effort e;
  e.bytes = bytes;
  e.blocks = blocks;
  // Where estimates are as good as equal, what Tensor Cores multiply goes there.
  const double tie = bitWidth(c.b) <= 16 || !multipliedAs(in.form).empty() ? 1.2 : 1;
  return tie * (std::max({microseconds(in.level, e), arithmetic, latency}) +
                (splits > 1 ? 1.5 : 0) + in.level.launchMicroseconds);
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
