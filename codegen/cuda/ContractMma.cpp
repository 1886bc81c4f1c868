// Defines the tactics `contract_mma_sm75` and `contract_mma_sm80`: convolutions and matrix products
// with fp32 accumulation on Tensor Cores (runtime/cuda/contract_mma.cuh), for tensors that are
// stored in 16 bits: fp16, and bf16 from sm_80 on. Each generation serves the machines up to the
// next.
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

struct Generation {
  llvm::StringRef id;
  llvm::StringRef kernel; // conv_<kernel>, matmul_<kernel>
  llvm::StringRef header;
  MmaGeneration machines;
  int64_t stages;    // at most
  double efficiency; // of what the data sheet promises, with large warps' tiles
};
constexpr Generation kSm75 = {
    "contract_mma_sm75", "mma_sm75", "cuda/contract_mma_sm75.cuh", kMmaSm75, 2, 0.45};
constexpr Generation kSm80 = {
    "contract_mma_sm80", "mma_sm80", "cuda/contract_mma_sm80.cuh", kMmaSm80, 4, 0.55};

template <const Generation &G> bool match(const TacticInput &in, std::string &why) {
  auto c = readContraction(in, why);
  if (!c)
    return false;
  return multipliesOn(G.machines, in, *c, why);
}

template <const Generation &G>
void enumerate(const TacticInput &in, llvm::SmallVectorImpl<Schedule> &out) {
  std::string why;
  const Contraction c = *readContraction(in, why);
  for (const ContractionTiles &t : kTiles) {
    if (c.isPacked && !packsInRows(c) && !packsIn(c, t.tileN))
      continue;
    for (int64_t splits : splitsFor(c, in.level, t))
      out.push_back({G.id.str(),
                     {{"tile_m", t.tileM},
                      {"tile_n", t.tileN},
                      {"tile_k", t.tileK},
                      {"warp_m", t.partM},
                      {"warp_n", t.partN},
                      {"stages", std::min(t.stages, G.stages)},
                      {"splits", splits}}});
  }
}

template <const Generation &G> double cost(const TacticInput &in, const Schedule &s) {
  std::string why;
  const Contraction c = *readContraction(in, why);
  const double tm = double(*s.get("tile_m")), tn = double(*s.get("tile_n")),
               tk = double(*s.get("tile_k"));
  const double splits = double(*s.get("splits")), blocks = double(tileCount(c, s)) * splits;
  const double steps = std::ceil(double(c.depth()) / tk / splits), sms = in.level.multiprocessors;
  const double perMultiprocessor = std::ceil(blocks / sms);
  const double warp = double(*s.get("warp_m") * *s.get("warp_n"));
  const double peak = in.level.tensorTflops * 1e6 / sms * G.efficiency * warp / (warp + 512);
  const double arithmetic = perMultiprocessor * 2 * tm * tn * tk * steps / peak;
  const double latency = std::ceil(perMultiprocessor / 3) * steps * 0.25;
  Effort e;
  e.bytes = double(workOf(*in.form.group).bytes) + blocks * steps * tk * (tm + tn) * 2 * 0.25 +
            (splits > 1 ? 2 * blocks * tm * tn * 4 : 0);
  e.blocks = blocks;
  return std::max({microseconds(in.level, e), arithmetic, latency}) + (splits > 1 ? 1.5 : 0) +
         in.level.launchMicroseconds;
}

template <const Generation &G>
void emit(const TacticInput &in, const Schedule &s, StepWriter &out) {
  out.include(G.header);
  std::string why;
  emitContraction(in, s, out, G.kernel,
                  packsInRows(*readContraction(in, why)) ? "k_major_weights" : "packed_weights");
}

template <const Generation &G> bool usesTensorCores(const TacticInput &in) {
  return isMachineOf(G.machines, in.level) && multipliedAs(in.form).empty();
}

template <const Generation &G> constexpr Tactic tactic(llvm::StringRef summary) {
  return {G.id,
          summary,
          match<G>,
          enumerate<G>,
          cost<G>,
          packContraction,
          splitPartialBytes,
          emit<G>,
          splitCounterBytes,
          usesTensorCores<G>};
}

} // namespace

const Tactic kContractMmaSm75 = tactic<kSm75>("fp16 contraction on the Tensor Cores of sm_75");
const Tactic kContractMmaSm80 = tactic<kSm80>("fp16 and bf16 contraction on Tensor Cores");

} // namespace tenon::cuda
