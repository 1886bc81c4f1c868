// Defines the tactic `contract_mma_sm80`: fp16 convolutions and matrix products with fp32
// accumulation on Tensor Cores (runtime/cuda/contract_mma_sm80.cuh), for tensors that are stored in
// fp16, on sm_80 and up.
#include "codegen/cuda/Tactics.h"

#include "codegen/Work.h"
#include "codegen/cuda/Contraction.h"

namespace tenon::cuda {
namespace {

/// tile_m, tile_n, tile_k, warp_m, warp_n, stages.
constexpr ContractionTiles kTiles[] = {
    {128, 128, 32, 64, 32, 3}, {128, 64, 32, 32, 32, 3}, {64, 64, 32, 32, 32, 4},
    {64, 32, 64, 32, 16, 3},   {32, 64, 64, 16, 32, 3},  {64, 16, 64, 16, 16, 3},
};

bool match(const TacticInput &in, std::string &why) {
  auto c = readContraction(in, why);
  if (!c)
    return false;
  if (in.level.sm < 80) {
    why = "mma.sync m16n8k16 needs sm_80";
    return false;
  }
  if (c->a != Element::F16 || c->b != Element::F16) {
    why = "operands that are not fp16";
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
      out.push_back({"contract_mma_sm80",
                     {{"tile_m", t.tileM},
                      {"tile_n", t.tileN},
                      {"tile_k", t.tileK},
                      {"warp_m", t.partM},
                      {"warp_n", t.partN},
                      {"stages", t.stages},
                      {"splits", splits}}});
  }
}

double cost(const TacticInput &in, const Schedule &s) {
  std::string why;
  const Contraction c = *readContraction(in, why);
  const double tm = double(*s.get("tile_m")), tn = double(*s.get("tile_n")),
               tk = double(*s.get("tile_k"));
  const double splits = double(*s.get("splits")), blocks = double(tileCount(c, s)) * splits;
  const double steps = std::ceil(double(c.depth()) / tk / splits), sms = in.level.multiprocessors;
  const double perMultiprocessor = std::ceil(blocks / sms);
  // mma.sync reaches about half of what the data sheet promises; large warps' tiles more of it.
  const double warp = double(*s.get("warp_m") * *s.get("warp_n"));
  const double peak = in.level.tensorTflops * 1e6 / sms * 0.55 * warp / (warp + 512);
  const double arithmetic = perMultiprocessor * 2 * tm * tn * tk * steps / peak;
  const double latency = std::ceil(perMultiprocessor / 3) * steps * 0.25;
  Effort e;
  e.bytes = double(workOf(*in.form.group).bytes) + blocks * steps * tk * (tm + tn) * 2 * 0.25 +
            (splits > 1 ? 2 * blocks * tm * tn * 4 : 0);
  e.blocks = blocks;
  return std::max({microseconds(in.level, e), arithmetic, latency}) + (splits > 1 ? 1.5 : 0) +
         in.level.launchMicroseconds;
}

void emit(const TacticInput &in, const Schedule &s, StepWriter &out) {
  out.include("cuda/contract_mma_sm80.cuh");
  emitContraction(in, s, out, "mma_sm80");
}

} // namespace

const Tactic kContractMmaSm80 = {"contract_mma_sm80",
                                 "fp16 contraction on Tensor Cores",
                                 match,
                                 enumerate,
                                 cost,
                                 packContraction,
                                 splitPartialBytes,
                                 emit,
                                 splitCounterBytes};

} // namespace tenon::cuda
