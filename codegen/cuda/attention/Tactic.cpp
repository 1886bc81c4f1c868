// Defines the tactic `attention_sm80`: one pass over keys and values for a block of queries, whose
// scores stay in registers, on Tensor Cores (runtime/cuda/attention/kernel.cuh).
#include "codegen/core/TacticOf.h"
#include "codegen/core/Work.h"
#include "codegen/cuda/shared/Contraction.h"
#include "codegen/forms/AttentionForm.h"
#include "runtime/cuda/attention/geometry.h"

#include "llvm/Support/MathExtras.h"

#include <cmath>

namespace tenon::cuda {
namespace {

/// Beyond 128 elements a thread's sums and queries take most of its registers: attention is raised
/// there only where attention_sm90a is (TargetTraits::attentionHeadOfHalves), which leaves some.
constexpr int64_t kLargestHead = 256;

struct AttentionSchedule {
  int64_t warps; // along queries
  int64_t teams; // of warps, along keys
  int64_t keys;  // of a warp at a time
  int64_t stages;

  static llvm::ArrayRef<Field<AttentionSchedule>> fields() {
    static const Field<AttentionSchedule> kFields[] = {
        {"warps", &AttentionSchedule::warps, oneOf(1, 2, 4, 8)},
        {"teams", &AttentionSchedule::teams, oneOf(1, 2, 4, 8)},
        {"keys", &AttentionSchedule::keys, oneOf(16, 32, 64)},
        {"stages", &AttentionSchedule::stages, between(2, 4)},
    };
    return kFields;
  }
};
constexpr AttentionSchedule kCandidates[] = {
    {4, 1, 64, 2}, {2, 2, 64, 2}, {2, 2, 32, 2}, {1, 4, 64, 2},
    {1, 4, 32, 2}, {1, 8, 32, 2}, {4, 1, 32, 2},
};
constexpr int64_t kMostWarps = 32; // of a block

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

struct Attention {
  static constexpr llvm::StringLiteral id = "attention_sm80",
                                       summary = "fp16 and bf16 attention on Tensor Cores, blocks "
                                                 "of queries over tiles of keys";
  struct Problem {
    GroupQuery in;
    AttentionForm f;

    attention_geometry geometry(const AttentionSchedule &s) const {
      return {s.warps, s.teams, s.keys, s.stages, f.depth().upper(), f.extent().upper()};
    }
  };
  using Schedule = AttentionSchedule;

  static bool forTensorCores(const GroupQuery &in) {
    return in.form.anchor && in.form.anchor->is(Op::Attention) && isMachineOf(kMmaSm80, in.level);
  }

  static Result<Problem> match(const GroupQuery &in) {
    return matchAttention(in, kLargestHead, 0, {.order = true, .parts = true, .body = true})
        .andThen([&]() -> Result<Problem> {
          const Element e = in.form.anchor->operand(0)->type().element();
          if (!isMachineOf(kMmaSm80, in.level))
            return Refusal{"Tensor Cores before sm_80", ""};
          if (e != Element::F16 && e != Element::BF16)
            return Refusal{"elements of " + name(e).str(), ""};
          return Problem{in, AttentionForm(in.form)};
        });
  }

  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    llvm::copy_if(kCandidates, std::back_inserter(out),
                  [&](const Schedule &s) { return bool(legal(p, s)); });
  }

  static Result<> legal(const Problem &p, const Schedule &s) {
    const ScheduleText text = printSchedule(id, s);
    if (s.warps * s.teams > kMostWarps)
      return impossible(text, "warps times teams is at most " + std::to_string(kMostWarps));
    return fitsShared(p.in.level, text, p.geometry(s).shared_bytes());
  }

  static double microseconds(const Problem &p, const Schedule &s) {
    const attention_geometry shape = p.geometry(s);
    // Of a block, on average; the tile that a diagonal crosses is computed whole.
    const auto tile = double(shape.tile_keys()), share = p.f.visibleShare();
    const double tiles =
        std::ceil(double(p.f.keys().upper()) / tile * share + (share < 1 ? 0.5 : 0));
    const double blocks = p.f.heads() * double(ceilDiv(p.f.queries().upper(), shape.queries()));
    const double slower =
        std::max(1.0, kPeak / (p.in.level.tensorTflops / std::max(1u, p.in.level.multiprocessors)));
    const auto keys = double(s.keys);
    const double work = slower * kMma * keys * double(shape.depth() + shape.width()) / 128 +
                        (kWeights + p.f.countOfAdded() * kBias) * 16 * keys;
    // Rounds of blocks that share a multiprocessor, the last of fewer.
    const double each = std::ceil(blocks / std::max(1u, p.in.level.multiprocessors));
    constexpr int64_t kWarpsTogether = 12; // that registers suffice for
    const double together = double(
        std::max<int64_t>(1, std::min(kWarpsTogether / (s.warps * s.teams),
                                      int64_t(p.in.level.sharedBytes) / shape.shared_bytes())));
    const double rounds = std::floor(each / together), rest = each - rounds * together;
    const double warps = std::ceil(double(s.warps * s.teams) / 4);
    auto step = [&](double present) {
      return present > 0 ? std::max(work + kStep, present * warps * kCrowded * work) : 0;
    };
    const double clocks =
        tiles * (rounds * step(together) + step(rest)) +
        std::ceil(each / together) * (kBlock + (s.teams > 1 ? kJoin * double(s.teams) : 0));
    Effort e;
    e.bytes = double(workOf(*p.in.form.group).bytes);
    return std::max(p.in.level.launchMicroseconds + clocks / kMegahertz,
                    cuda::microseconds(p.in.level, e));
  }

  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    out.include("cuda/attention/kernel.cuh");
    StepWriter::Config cfg(out, "config");
    cfg.extents("batch", p.f.leading());
    p.f.configure(cfg);
    for (const auto &[key, value] : membersOf(s))
      cfg.number(key, value);
    if (isLarge(p.in.form))
      cfg.flag("large", true);
    const std::string config = cfg.finish();
    p.f.writeViews(out);
    launch(out, "attention_sm80", p.f.arguments(config));
  }
};

} // namespace

const Tactic &kAttentionSm80 = kTacticOf<Attention>;

} // namespace tenon::cuda
