// Defines the tactic `attention_sm80`: one pass over keys and values for a block of queries, whose
// scores stay in registers, on Tensor Cores (runtime/cuda/attention_sm80.cuh).
#include "codegen/cuda/Tactics.h"

#include "codegen/AttentionForm.h"
#include "codegen/Work.h"
#include "codegen/cuda/Contraction.h"

#include "llvm/Support/MathExtras.h"

#include <cmath>

namespace tenon::cuda {
namespace {

/// Larger heads leave no registers for scores (TargetTraits::attentionHeadOfHalves).
constexpr int64_t kLargestHead = 128;
constexpr int64_t kStages = 2;

/// Warps along queries, teams of them along keys, and keys of a warp at a time.
struct Shape {
  int64_t warps, teams, keys;
  int64_t queries() const { return 16 * warps; }
};
constexpr Shape kShapes[] = {
    {4, 1, 64}, {2, 2, 64}, {2, 2, 32}, {1, 4, 64}, {1, 4, 32}, {1, 8, 32}, {4, 1, 32},
};

int64_t wholeSixteens(Dim d) { return ceilDiv(d.upper(), 16) * 16; }

/// As the kernel has it: tiles of keys, values and queries, or what teams exchange.
int64_t sharedBytes(const AttentionForm &f, const Shape &s) {
  const int64_t depth = wholeSixteens(f.depth()), width = wholeSixteens(f.extent());
  const int64_t tiles =
      2 * (kStages * s.teams * s.keys * (depth + width + 16) + s.queries() * (depth + 8));
  const int64_t sums = ceilDiv(width / 8, s.teams) * s.teams * 4;
  return std::max(tiles, (s.teams - 1) * 32 * s.warps * sums * 4 + s.teams * s.queries() * 8);
}

bool match(const TacticInput &in, std::string &why) {
  if (!matchAttention(in, kLargestHead, 0, why))
    return false;
  const Element e = in.form.anchor->operand(0)->type().element();
  if (!isMachineOf(kMmaSm80, in.level))
    why = "Tensor Cores before sm_80";
  else if (e != Element::F16 && e != Element::BF16)
    why = "elements of " + name(e).str();
  return why.empty();
}

void enumerate(const TacticInput &in, llvm::SmallVectorImpl<Schedule> &out) {
  const AttentionForm f(in.form);
  for (const Shape &s : kShapes)
    if (sharedBytes(f, s) <= int64_t(in.level.sharedBytes))
      out.push_back(
          {"attention_sm80",
           {{"warps", s.warps}, {"teams", s.teams}, {"keys", s.keys}, {"stages", kStages}}});
}

/// Clocks of a part of a multiprocessor, of which there are four, each for one warp at a time.
/// Source: fitted to `tenon tune` of attention alone on one H200 (CUDA 13.0, fp16): 13 shapes, 128
/// to 4,096 tokens, heads of 64 and 128, batch 1 and 8, and one query; 7 schedules each. The rms
/// error is 26 %; the fastest is chosen in 10, and what is chosen takes at most 1.4 times as long.
constexpr double kMma = 10.5;         // one m16n8k16
constexpr double kWeights = 1.16;     // each score's exponential and what goes with it
constexpr double kBias = 1.02;        // what is added to each, from global memory
constexpr double kStep = 870;         // waiting within a step, while there is one warp
constexpr double kCrowded = 0.82;     // of a step's clocks, where other warps fill its gaps
constexpr double kBlock = 1560;       // first loads, last stores
constexpr double kJoin = 460;         // each of several teams
constexpr double kMegahertz = 1755;   // of an H200
constexpr double kPeak = 743.0 / 132; // Tensor Core TFLOP/s of one of its multiprocessors

double cost(const TacticInput &in, const Schedule &chosen) {
  const AttentionForm f(in.form);
  const Shape s{*chosen.get("warps"), *chosen.get("teams"), *chosen.get("keys")};
  const auto depth = double(wholeSixteens(f.depth())), width = double(wholeSixteens(f.extent()));
  // Of a block, on average; the tile that a diagonal crosses is computed whole.
  const auto tile = double(s.teams * s.keys), share = f.visibleShare();
  const double tiles = std::ceil(double(f.keys().upper()) / tile * share + (share < 1 ? 0.5 : 0));
  const double blocks = f.heads() * double(ceilDiv(f.queries().upper(), s.queries()));
  const double slower =
      std::max(1.0, kPeak / (in.level.tensorTflops / std::max(1u, in.level.multiprocessors)));
  const auto keys = double(s.keys);
  const double work = slower * kMma * keys * (depth + width) / 128 +
                      (kWeights + (f.hasBias() ? kBias : 0)) * 16 * keys;
  // Rounds of blocks that share a multiprocessor, the last of fewer.
  const double each = std::ceil(blocks / std::max(1u, in.level.multiprocessors));
  constexpr int64_t kMostWarps = 12; // that registers suffice for
  const double together =
      double(std::max<int64_t>(1, std::min(kMostWarps / (s.warps * s.teams),
                                           int64_t(in.level.sharedBytes) / sharedBytes(f, s))));
  const double rounds = std::floor(each / together), rest = each - rounds * together;
  const double warps = std::ceil(double(s.warps * s.teams) / 4);
  auto step = [&](double present) {
    return present > 0 ? std::max(work + kStep, present * warps * kCrowded * work) : 0;
  };
  const double clocks =
      tiles * (rounds * step(together) + step(rest)) +
      std::ceil(each / together) * (kBlock + (s.teams > 1 ? kJoin * double(s.teams) : 0));
  Effort e;
  e.bytes = double(workOf(*in.form.group).bytes);
  return std::max(in.level.launchMicroseconds + clocks / kMegahertz, microseconds(in.level, e));
}

void emit(const TacticInput &in, const Schedule &s, StepWriter &out) {
  const AttentionForm f(in.form);
  out.include("cuda/attention_sm80.cuh");
  StepWriter::Config cfg(out, "config");
  cfg.extents("batch", f.leading());
  f.configure(cfg);
  for (llvm::StringRef n : {"warps", "teams", "keys", "stages"})
    cfg.number(n, *s.get(n));
  if (isLarge(in.form))
    cfg.flag("large", true);
  const std::string config = cfg.finish();
  f.writeViews(out);
  launch(out, "attention_sm80",
         {config, cppScalar(Element::F32, in.form.anchor->floatAttr("scale")), "q", "k", "v",
          "bias", "y"});
}

bool usesTensorCores(const TacticInput &in) {
  return in.form.anchor && in.form.anchor->is(Op::Attention) && isMachineOf(kMmaSm80, in.level);
}

} // namespace

const Tactic kAttentionSm80 = {
    "attention_sm80",
    "fp16 and bf16 attention on Tensor Cores, blocks of queries over tiles of keys",
    match,
    enumerate,
    cost,
    nullptr,
    nullptr,
    emit,
    nullptr,
    usesTensorCores};

} // namespace tenon::cuda
