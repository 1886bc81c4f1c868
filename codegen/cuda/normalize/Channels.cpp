// Defines the tactic `normalize_channels`: group norms of images, channels last, by two launches
// that go along pixels (runtime/cuda/normalize/channels.cuh).
#include "codegen/cuda/normalize/Costs.h"

#include "codegen/core/Work.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tenon::cuda {
namespace {

constexpr int64_t kThreads = 256, kMostBlocks = 256; // of a block; of an image's pixels
constexpr int64_t kPartBytes = 24;                   // of what a block knows of a group

struct ChannelsProblem {
  RowProblem rows;
  Dim images, pixels;
  int64_t groups, width; // of a group: channels

  int64_t channels() const { return groups * width; }
  int64_t count() const { return std::max<int64_t>(1, images.upper()); }

  /// Strides along image, pixel and channel.
  Strides operator()(const Strides &s) const {
    const Strides r = rows.nest(s);
    const Dim none = s.offset.node()->context->dim(0);
    const unsigned kept = rows.nest.kept;
    return {{kept > 1 ? r.strides[0] : none, r.strides[kept], r.strides[kept + 1]}, r.offset};
  }
};

struct ChannelsSchedule {
  int64_t columns, vector; // threads along channels, and the elements of their runs
  int64_t ahead;           // runs that a thread fetches together
  int64_t blocks;          // of an image's pixels

  static llvm::ArrayRef<Field<ChannelsSchedule>> fields() {
    static const Field<ChannelsSchedule> kFields[] = {
        {"columns", &ChannelsSchedule::columns, between(1, kThreads)},
        {"vector", &ChannelsSchedule::vector, VectorSchedule::allowed()},
        {"ahead", &ChannelsSchedule::ahead, oneOf(1, 2, 4, 8)},
        {"blocks", &ChannelsSchedule::blocks, between(1, kMostBlocks)},
    };
    return kFields;
  }
};

struct NormalizeChannels : PricedBy<kNormalizeCosts> {
  static constexpr llvm::StringLiteral id = "normalize_channels",
                                       summary = "group norms of images, channels last";
  using Problem = ChannelsProblem;
  using Schedule = ChannelsSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    Result<RowProblem> rows = matchRows(in, Op::Normalize);
    if (!rows)
      return std::move(rows).refusal();
    if (auto plain = isPlainBody(in.form.body); !plain)
      return std::move(plain).refusal();
    const RowNest &nest = rows->nest;
    const Refusal other{"rows that are not groups of an image's channels, channels last", ""};
    if (nest.kept > 2 || nest.extents.size() != nest.kept + 2 ||
        !nest.extents[nest.kept - 1].isConstant() || !nest.extents.back().isConstant())
      return other;
    const int64_t width = nest.extents.back().constant();
    auto isSideBySide = [&](const Strides &s, bool whole) {
      const Strides r = nest(s);
      const Dim last = r.strides.back();
      return (last.isConstant(1) || (!whole && last.isConstant(0))) &&
             r.strides[nest.kept - 1].isConstant(last.constant() * width);
    };
    const auto rank = unsigned(in.form.body.space.size());
    for (const Access &a : in.form.anchorInputs[0].inputs)
      if (!isSideBySide(stridesOf(a, rank), false))
        return other;
    for (const Access &a : in.form.body.inputs)
      if (!isSideBySide(stridesOf(a, rank), false))
        return other;
    for (const OutputForm &o : in.form.outputs)
      if (!isSideBySide(stridesOf(o, rank), true))
        return other;
    Context &c = in.form.anchor->result()->type().context();
    return Problem{*rows, nest.kept > 1 ? nest.extents[0] : c.dim(1), nest.extents[nest.kept],
                   nest.extents[nest.kept - 1].constant(), width};
  }

  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    unsigned bits = 16;
    for (const OutputForm &o : p.rows.in.form.outputs)
      bits = std::max(bits, bitWidth(o.type.element()));
    int64_t vector = 128 / bits;
    while (p.channels() % std::lcm(vector, p.width))
      vector /= 2;
    const int64_t least = std::lcm(vector, p.width) / vector, all = p.channels() / vector;
    const int64_t sms = std::max(1u, p.rows.in.level.multiprocessors);
    for (int64_t columns = all; columns >= least; columns -= least) {
      // Pieces of a line of memory at least, where there are so many channels.
      if (columns > kThreads || all % columns || (columns * vector < 64 && columns < all))
        continue;
      const int64_t lanes = kThreads / columns, chunks = p.count() * (all / columns);
      for (int64_t each : {1, 2, 4}) {
        const int64_t most = std::max<int64_t>(1, p.pixels.upper() / lanes);
        const int64_t blocks =
            std::min({std::max<int64_t>(1, each * sms / chunks), most, kMostBlocks});
        const int64_t runs = ceilDiv(ceilDiv(p.pixels.upper(), blocks), lanes);
        const Schedule s = {columns, vector, runs > 4 ? 8 : 4, blocks};
        if (llvm::none_of(out, [&](const Schedule &o) { return printedOf(o) == printedOf(s); }))
          out.push_back(s);
      }
    }
  }

  static Result<> legal(const Problem &p, const Schedule &s) {
    const int64_t own = s.columns * s.vector;
    if (own % p.width || p.channels() % own)
      return impossible(printSchedule(id, s),
                        "columns times vector is a multiple of a group's channels, " +
                            std::to_string(p.width) + ", that divides all of them, " +
                            std::to_string(p.channels()));
    return fitsShared(p.rows.in.level, printSchedule(id, s), kThreads / s.columns * own * 16);
  }

  /// Both launches read the image, the second writes it.
  static double microseconds(const Problem &p, const Schedule &s, const NormalizeCosts &costs) {
    const ChannelsCosts &c = costs.channels;
    const TargetLevel &level = p.rows.in.level;
    const double sms = std::max(1u, level.multiprocessors);
    const int64_t strips = p.channels() / (s.columns * s.vector);
    const auto blocks = double(p.count() * strips * s.blocks);
    const double used = std::min(1.0, blocks / sms), waves = std::ceil(blocks / (sms * 6));
    const double runs = double(ceilDiv(ceilDiv(p.pixels.upper(), s.blocks), kThreads / s.columns));
    const double kilobytes = 1.5 * double(workOf(*p.rows.in.form.group).bytes) / 1e3;
    return level.launchMicroseconds + c.launch +
           waves * (c.block + c.fetch * 2 * std::ceil(runs / double(s.ahead))) +
           c.part * double(s.blocks) / 32 +
           std::max(kilobytes / (level.bandwidthGBs * c.memory), kilobytes / (sms * used * c.port));
  }

  static int64_t scratch(const Problem &p, const Schedule &s) {
    return p.count() * p.groups * s.blocks * kPartBytes;
  }

  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    const GroupForm &form = p.rows.in.form;
    const Operation &op = *form.anchor;
    Context &c = op.result()->type().context();
    out.include("cuda/normalize/channels.cuh");
    StepWriter::Config cfg(out, "config");
    cfg.extents("images", {p.images}).extents("pixels", {p.pixels});
    cfg.extents("channels", {c.dim(p.channels())}).number("width", p.width);
    cfg.flag("centered", op.boolAttr("centered")).number("threads", kThreads);
    cfg.number("columns", s.columns).number("vector", s.vector).number("ahead", s.ahead);
    cfg.number("blocks", s.blocks)
        .flag("whole", areRunsWhole(out, form, p, 2, c.dim(p.channels()), s.vector));
    if (isLarge(form))
      cfg.flag("large", true);
    const std::string config = cfg.finish();
    const std::string body =
        declareOperands(out, form, form.anchorInputs[0], p, p.rows.nest.placeOf);
    launchParts(out, id, {config, "x"});
    launch(out, id,
           {config, cppScalar(op.result()->type().element(), op.floatAttr("epsilon")), "x", "outs",
            "ins", body, "parts"});
  }
};

} // namespace

const Tactic &kNormalizeChannels = kTacticOf<NormalizeChannels>;

} // namespace tenon::cuda
