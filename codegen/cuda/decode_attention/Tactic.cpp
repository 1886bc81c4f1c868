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

/// Microseconds on an H100.
struct DecodeAttentionCosts {
  double block;   // a launch beyond the machine's, a block's first keys, its join and last stores
  double step;    // a warp's wait for its next keys
  double work;    // 4 warps' products with 16 keys of 128 columns of keys and values together
  double cluster; // blocks that meet in shared memory, each
  double scratch, part; // in scratch: all, each
  double share;         // of the machine's bandwidth
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
    // Others gain at most 1 % on any problem of bench/cuda/decode_attention.
    const auto add = [&](int64_t splits, int64_t cluster) {
      for (const auto &[warps, keys, stages] :
           {std::array<int64_t, 3>{4, 16, 3}, {8, 16, 3}, {8, 16, 2}, {4, 32, 2}, {8, 32, 2}})
        if (const Schedule s{warps, keys, stages, splits, cluster};
            (cluster || keys == 16) && legal(p, s))
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
      return impossible(text,
                        "a cluster has at most " + std::to_string(kMostOfCluster) + " blocks");
    if (s.cluster && s.splits == 1)
      return impossible(text, "one block is no cluster");
    return fitsShared(p.in.level, text, geometryOf(p, s).shared_bytes());
  }

  /// Of a run: where that says how many queries there are, one has the weight of one, and as many
  /// as there may be that of one for all of them.
  static double microseconds(const Problem &p, const Schedule &s, const Costs &c) {
    const Dim queries = p.f.queries();
    const double most = ofTiles(p, s, c, p.tiles());
    if (queries.isConstant())
      return most;
    const double weight = 1 / double(std::max<int64_t>(1, queries.upper()));
    return (ofTiles(p, s, c, p.tiles(1)) + weight * most) / (1 + weight);
  }
  static double ofTiles(const Problem &p, const Schedule &s, const Costs &c, double tiles) {
    const TargetLevel &level = p.in.level;
    const decode_attention_geometry g = geometryOf(p, s);
    const double keys = std::max(1.0, double(p.f.keys().upper()) * p.f.visibleShare());
    const double steps = std::ceil(keys / double(s.keys * s.warps * s.splits));
    // Rounds of blocks that a multiprocessor has at once.
    constexpr int64_t kWarpsTogether = 16; // that registers suffice for
    const double each = std::ceil(tiles * double(s.splits) / std::max(1u, level.multiprocessors));
    const double together = std::min(
        each,
        double(std::max<int64_t>(
            1, std::min(kWarpsTogether / s.warps, int64_t(level.sharedBytes) / g.shared_bytes()))));
    const double products = c.work * double(s.keys) / 16 * double(g.depth() + g.width()) / 128 *
                            (1 + (p.f.hasBias() ? c.bias : 0));
    const double step = std::max(c.step, products * std::max(1.0, together * double(s.warps) / 4));
    const double memory =
        double(workOf(*p.in.form.group).bytes) / 1000 / (level.bandwidthGBs * c.share);
    const double time =
        std::max(std::ceil(each / together) * (c.block + steps * step), c.block + memory);
    const double meeting = s.splits == 1 ? 0
                           : s.cluster   ? c.cluster * double(s.splits)
                                         : c.scratch + c.part * double(s.splits);
    return level.launchMicroseconds + time + meeting;
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
    std::vector<std::string> arguments = p.f.arguments(config);
    if (!p.f.hasOrder())
      arguments.push_back("plain_order{}");
    arguments.push_back("rows");
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
      {"fuse.decode-attention-norms",
       "the same with the norms of the heads' queries and new keys",
       {},
       "fuse.decode-attention",
       findNormedCacheUpdate},
  };
};

} // namespace

const Tactic &kDecodeAttention = kTacticOf<DecodeAttention>;
const Tactic &kDecodeAttentionCached = kTacticOf<DecodeAttentionCached>;

} // namespace tenon::cuda
