// Defines the tactic `decode_attention`: few queries over many keys, which blocks share, on Tensor
// Cores (runtime/cuda/decode_attention/kernel.cuh).
#include "codegen/core/Work.h"
#include "codegen/cuda/decode_attention/Problem.h"

#include <cmath>

namespace tenon::cuda {
namespace {

struct DecodeAttentionSchedule {
  int64_t warps;   // of a block, along keys
  int64_t keys;    // of a warp at a time
  int64_t stages;  // of a warp's ring
  int64_t splits;  // blocks that share keys
  int64_t cluster; // they are one, and meet in shared memory; else in scratch

  static llvm::ArrayRef<Field<DecodeAttentionSchedule>> fields() {
    using S = DecodeAttentionSchedule;
    static const Field<S> kFields[] = {
        {"warps", &S::warps, oneOf(1, 2, 4, 8, 16)}, {"keys", &S::keys, oneOf(16, 32)},
        {"stages", &S::stages, between(2, 4)},       {"splits", &S::splits, between(1, 64)},
        {"cluster", &S::cluster, oneOf(0, 1)},
    };
    return kFields;
  }
};

constexpr int64_t kMostOfCluster = 8;

/// Microseconds on an H100.
struct DecodeAttentionCosts {
  double start;   // a launch beyond the machine's, the first keys and the last stores
  double step;    // waiting for a warp's next keys, shared by the stages ahead
  double work;    // a warp's products with 16 keys of 128 columns in all, of 4 warps at a time
  double join;    // warps of a block, for each
  double cluster; // blocks meet in shared memory
  double scratch, part; // or in scratch, and what each of them takes there
  double bias;          // of a score, as a factor of work
  static constexpr llvm::StringLiteral family = "decode_attention";
};
constexpr DecodeAttentionCosts kCosts = {
#include "codegen/cuda/decode_attention/costs.inc"
};

/// What both tactics, of which T is one, do alike.
template <class T> struct DecodeAttentionOf : PricedBy<kCosts> {
  using Problem = DecodeAttentionProblem;
  using Schedule = DecodeAttentionSchedule;

  static decode_attention_geometry geometryOf(const Problem &p, const Schedule &s) {
    return {
        s.warps,       s.keys, s.stages, s.splits, p.f.depth().constant(), p.f.extent().constant(),
        s.cluster != 0};
  }

  static bool forTensorCores(const GroupQuery &in) {
    return in.form.anchor && in.form.anchor->is(Op::Attention) && isMachineOf(kMmaSm80, in.level);
  }

  static Result<Problem> match(const GroupQuery &in) { return readDecodeAttention(in); }

  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    const auto add = [&](int64_t splits, int64_t cluster) {
      for (int64_t warps : {8, 4})
        for (int64_t keys : {16, 32})
          for (int64_t stages : {2, 3})
            if (const Schedule s{warps, keys, stages, splits, cluster}; legal(p, s))
              out.push_back(s);
    };
    for (int64_t splits : {8, 4, 2})
      if (p.in.level.sm >= 90)
        add(splits, 1);
    for (int64_t splits : {1, 2, 4, 8, 16, 32})
      if (splits == 1 || double(splits) * p.tiles() <= 2.0 * p.in.level.multiprocessors)
        add(splits, 0);
  }

  static Result<> legal(const Problem &p, const Schedule &s) {
    const ScheduleText text = printSchedule(T::id, s);
    if (s.cluster && p.in.level.sm < 90)
      return impossible(text, "clusters are for sm_90 and up");
    if (s.cluster && s.splits > kMostOfCluster)
      return impossible(text, "a cluster has at most 8 blocks");
    if (s.cluster && s.splits == 1)
      return impossible(text, "one block is no cluster");
    return fitsShared(p.in.level, text, geometryOf(p, s).shared_bytes());
  }

  static double microseconds(const Problem &p, const Schedule &s, const Costs &c) {
    const TargetLevel &level = p.in.level;
    const decode_attention_geometry g = geometryOf(p, s);
    const double keys = std::max(1.0, double(p.f.keys().upper()) * p.f.visibleShare());
    const double steps = std::ceil(keys / double(s.keys * s.warps * s.splits));
    const double blocks = p.tiles() * double(s.splits);
    const double waves = std::ceil(blocks / std::max(1u, level.multiprocessors));
    const double products = c.work * double(s.keys) / 16 * double(g.depth() + g.width()) / 128 *
                            (1 + (p.f.hasBias() ? c.bias : 0));
    const double step =
        std::max(c.step / double(s.stages - 1), products * std::ceil(double(s.warps) / 4));
    double time = c.start + c.join * double(s.warps) + waves * steps * step;
    if (s.cluster)
      time += c.cluster;
    else if (s.splits > 1)
      time += c.scratch + c.part * double(s.splits);
    Effort e;
    e.bytes = double(workOf(*p.in.form.group).bytes);
    return level.launchMicroseconds + std::max(time, cuda::microseconds(level, e));
  }

  static int64_t scratch(const Problem &p, const Schedule &s) {
    return geometryOf(p, s).part_bytes(int64_t(p.tiles()));
  }
  static int64_t zeroed(const Problem &p, const Schedule &s) {
    return geometryOf(p, s).counter_bytes(int64_t(p.tiles()));
  }

  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    out.include("cuda/decode_attention/kernel.cuh");
    StepWriter::Config cfg(out, "config");
    cfg.extents("batch", p.batch()).extent("group", p.group);
    p.f.configure(cfg);
    for (const auto &[key, value] : membersOf(s))
      if (key != "cluster")
        cfg.number(key, value);
    if (isLarge(p.in.form))
      cfg.flag("large", true);
    const std::string config = cfg.finish();
    p.writeOperands(out);
    std::vector<std::string> arguments{
        config, cppScalar(Element::F32, p.in.form.anchor->floatAttr("scale")),
        "q",    "k",
        "v",    "bias",
        "y",    p.f.hasOrder() ? "order" : "plain_order{}",
        "rows"};
    if (!s.cluster && s.splits > 1)
      arguments.push_back("cuda::split_scratch{" + out.scratchPointer("float") + ", " +
                          out.zeroedPointer("int") + "}");
    launch(out, s.cluster ? "decode_attention_sm90" : "decode_attention_sm80", arguments);
  }
};

struct DecodeAttention : DecodeAttentionOf<DecodeAttention> {
  static constexpr llvm::StringLiteral id = "decode_attention",
                                       summary = "fp16 and bf16 attention of few queries on Tensor "
                                                 "Cores, blocks share the keys";
};

struct DecodeAttentionCached : DecodeAttentionOf<DecodeAttentionCached> {
  static constexpr llvm::StringLiteral id = "decode_attention_cached",
                                       summary = "the same with what computes queries and new keys "
                                                 "(rotations), and the caches with new rows";
  static constexpr Chain chains[] = {
      {"fuse.decode-attention",
       "few queries and new rows of a cache, what computes them, and attention over it",
       {},
       {},
       findCacheUpdate},
  };
};

} // namespace

const Tactic &kDecodeAttention = kTacticOf<DecodeAttention>;
const Tactic &kDecodeAttentionCached = kTacticOf<DecodeAttentionCached>;

} // namespace tenon::cuda
