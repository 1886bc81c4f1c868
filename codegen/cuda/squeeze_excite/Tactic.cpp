// Defines the tactic `squeeze_excite`: the means of an image's channels and two products with
// constant weights as one kernel of a cluster of blocks (runtime/cuda/squeeze_excite/kernel.cuh).
// It takes what the gates make of the image along, where that is faster.
#include "codegen/core/TacticOf.h"
#include "codegen/cuda/squeeze_excite/Problem.h"

#include "codegen/emit/CppText.h"
#include "runtime/cuda/squeeze_excite/geometry.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cmath>

namespace tenon::cuda {
namespace {

struct GatesSchedule {
  int64_t threads, channelParts, pixelParts, staged;

  static llvm::ArrayRef<Field<GatesSchedule>> fields() {
    static const Field<GatesSchedule> kFields[] = {
        {"threads", &GatesSchedule::threads, oneOf(256, 512, 1024)},
        {"channel_parts", &GatesSchedule::channelParts, oneOf(1, 2, 4, 8)},
        {"pixel_parts", &GatesSchedule::pixelParts, oneOf(1, 2, 4, 8)},
        {"staged", &GatesSchedule::staged, oneOf(0, 1)},
    };
    return kFields;
  }
};

squeeze_excite_geometry geometryOf(const Gates &g, const GatesSchedule &s) {
  return {g.channels(),       g.hidden(), g.outputs(),    128 / bitWidth(g.first.c.b),
          g.gated.hasValue(), s.threads,  s.channelParts, s.pixelParts,
          s.staged != 0};
}

/// Whether every block has channels and pixels, every run of channels a thread.
bool hasWork(const Gates &g, const squeeze_excite_geometry &shape) {
  return shape.channel_parts <= shape.runs1() &&
         (shape.pixel_parts == 1 || shape.pixel_parts <= g.pixelCount()) &&
         shape.part_runs() <= shape.threads;
}

/// Microseconds, but where something else stands.
struct GatesCosts {
  double block;     // its barriers and stores, beside the launch
  double exchange;  // between blocks
  double round;     // loads of pixels under way together
  double threads;   // barriers of 1024
  double unstaged;  // weights that are read when they are needed
  double pixels;    // a KB of them
  double weights;   // a KB that is read when needed
  double staged;    // and one that is copied before
  double shares;    // each of the sums that a thread adds up
  double rows;      // each round of loads of weights
  double moving;    // of the whole tensor, over what memory takes for it
  double neighbour; // each block more on a multiprocessor
  double image;     // the image once more and what becomes of it, over the image once

  static constexpr llvm::StringLiteral family = "squeeze_excite";
};
constexpr GatesCosts kCosts = {
#include "codegen/cuda/squeeze_excite/costs.inc"
};

bool isReduction(const Operation &op) { return op.is(Op::Reduce); }
bool isProduct(const Operation &op) { return op.isAny(Op::Conv, Op::MatMul); }

struct SqueezeExcite : PricedBy<kCosts> {
  static constexpr llvm::StringRef id = "squeeze_excite",
                                   summary = "the gates of squeeze-and-excitation, a cluster of "
                                             "blocks an image";
  static constexpr ChainPart kGates[] = {{isReduction, 1}, {isProduct, 2}, {isProduct, 2}},
                             kGated[] = {
                                 {isReduction, 1}, {isProduct, 2}, {isProduct, 3}, {nullptr, 3}};
  static constexpr Chain chains[] = {
      {"fuse.squeeze-excite", "means of channels and the two products that make gates of them",
       kGates},
      {"fuse.gated-image", "the product of an image with such gates", kGated,
       "fuse.squeeze-excite"}};
  using Problem = Gates;
  using Schedule = GatesSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    if (in.level.sm < 90)
      return Refusal{"no clusters of blocks before sm_90", ""};
    return readGates(in);
  }

  static void candidates(const Problem &g, std::vector<Schedule> &out) {
    const auto most = int64_t(g.in.level.sharedBytes);
    for (int64_t blocks = kMostOfCluster; blocks >= 1; blocks /= 2)
      for (int64_t channelParts = blocks; channelParts >= 1; channelParts /= 2)
        for (int64_t threads : {256, 512, 1024}) {
          Schedule s{threads, channelParts, blocks / channelParts, true};
          if (!hasWork(g, geometryOf(g, s)))
            continue;
          s.staged = geometryOf(g, s).shared_bytes() <= most / 2;
          if (geometryOf(g, s).shared_bytes() <= most)
            out.push_back(s);
        }
  }

  static Result<> legal(const Problem &g, const Schedule &s) {
    const squeeze_excite_geometry shape = geometryOf(g, s);
    if (shape.blocks() > kMostOfCluster)
      return impossible<SqueezeExcite>(s, "channel_parts x pixel_parts, the blocks of a cluster, "
                                          "are more than " +
                                              std::to_string(kMostOfCluster));
    if (!hasWork(g, shape))
      return impossible<SqueezeExcite>(
          s, "more parts than there are " + std::to_string(shape.runs1()) +
                 " runs of channels or " + std::to_string(g.pixelCount()) +
                 " pixels, or more runs than threads");
    return fitsShared(g.in.level, printSchedule(id, s), shape.shared_bytes());
  }

  static double microseconds(const Problem &g, const Schedule &s, const GatesCosts &c) {
    const squeeze_excite_geometry shape = geometryOf(g, s);
    const double images = double(std::max<int64_t>(1, g.images().upper()));
    const int64_t lanes = shape.pixel_lanes(), pixels = ceilDiv(g.pixelCount(), s.pixelParts);
    auto rounds = [&](int64_t rows, int64_t runs) {
      const int64_t sharing = shape.row_lanes(runs);
      return double(ceilDiv(rows, s.threads / sharing) * ceilDiv(runs, sharing));
    };
    const double passes = g.gated ? 1 + c.image : 1;
    const double latency = (shape.blocks() > 1 ? c.exchange : 0) +
                           passes * c.round * double(ceilDiv(pixels, lanes * shape.ahead())) +
                           c.threads * double(s.threads) / 1024 + (s.staged ? 0 : c.unstaged) +
                           c.shares * double(lanes) / double(shape.shares()) +
                           c.rows * (rounds(g.hidden(), shape.part_runs()) +
                                     rounds(shape.part_outputs(), shape.runs2()));
    const auto piece =
        double(llvm::alignTo(uint64_t(16 * shape.part_runs()), 32)); // of memory's lines
    const double reading =
        passes * c.pixels * double(pixels) * piece / 1e3 +
        (s.staged ? c.staged : c.weights) * double(shape.w1_bytes() + shape.w2_bytes()) / 1e3;
    const double sms = std::max(1u, g.in.level.multiprocessors),
                 blocks = images * double(shape.blocks());
    const double most = std::max(1.0, std::min({2048.0 / double(s.threads), 8.0,
                                                std::floor(double(g.in.level.sharedBytes) /
                                                           double(shape.shared_bytes() + 1024))}));
    const double together = std::min(most, std::max(1.0, std::ceil(blocks / sms)));
    const double waves = std::max(1.0, std::ceil(blocks / (sms * most)));
    const double bytes = images * double(g.pixelCount() * g.channels() * bitWidth(g.first.c.b)) / 8;
    return g.in.level.launchMicroseconds + c.block +
           waves * (latency + together * reading + c.neighbour * (together - 1)) +
           passes * c.moving * bytes / (g.in.level.bandwidthGBs * 1e3);
  }

  static void pack(const Problem &g, const Schedule &, llvm::SmallVectorImpl<Packing> &out) {
    packPaddedRows(g.first, out);
    packPaddedRows(g.second, out);
  }

  static void emit(const Problem &g, const Schedule &s, StepWriter &out) {
    Context &context = g.second.in.form.anchor->result()->type().context();
    // Pixels in the order of memory, those that follow one another as one dimension.
    std::vector<Strides> reads;
    for (const Access &a : g.x.inputs)
      reads.push_back(stridesOf(a, unsigned(g.x.space.size())));
    if (g.gated) {
      const std::vector<Strides> image = bodyStrides(g.in.form);
      reads.insert(reads.end(), image.begin(), image.end());
    }
    llvm::SmallVector<bool, 6> indexed = indexedDims(g.x);
    const MergedDims pixels = mergeDims(
        g.x.space, reads.empty() ? g.pixels : byStride(g.pixels, reads[0]), reads, indexed);
    llvm::SmallVector<Dim, 6> extents = pixels.extents;
    if (extents.empty())
      extents.push_back(context.dim(1));
    auto ofX = [&](const Strides &from) {
      Strides r;
      r.offset = from.offset;
      r.strides.push_back(from.strides[g.image]);
      const Strides inner = pixels(from);
      r.strides.append(inner.strides.begin(), inner.strides.end());
      if (inner.strides.empty())
        r.strides.push_back(context.dim(0));
      r.strides.push_back(from.strides[g.channel]);
      return r;
    };
    llvm::SmallVector<int, 6> places(g.x.space.size(), -1);
    places[g.image] = 0;
    places[g.channel] = int(extents.size()) + 1;
    for (unsigned d : g.pixels)
      if (pixels.placeOf[d] >= 0)
        places[d] = pixels.placeOf[d] + 1;
    auto of1 = [&](const Strides &x) { return rowStrides(g.first.c, x); };
    auto of2 = [&](const Strides &x) { return rowStrides(g.second.c, x); };

    out.include("cuda/squeeze_excite/kernel.cuh");
    StepWriter::Config cfg(out, "config");
    cfg.extent("images", g.images()).extents("pixels", extents);
    cfg.number("channels", g.channels())
        .number("hidden", g.hidden())
        .number("outputs", g.outputs());
    cfg.number("threads", s.threads);
    cfg.number("channel_parts", s.channelParts).number("pixel_parts", s.pixelParts);
    cfg.flag("staged", s.staged);
    const std::string config = cfg.finish();
    const std::string x = operandView(out, g.x, ofX, places, "operand");
    const std::string activate = out.body(
        g.first.in.form.body, {g.first.in.form.anchor->result()->type().element()}, "activate");
    const std::string excite = out.body(
        g.second.in.form.body, {g.second.in.form.anchor->result()->type().element()}, "excite");
    const auto weights = [&](const GroupForm &form) {
      return out.pointer(form.anchorInputs[1].inputs[0].source, context.dim(0));
    };
    SourceWriter &code = out.code();
    code.line("const auto x = " + x + ";");
    code.line("const auto hidden_ins = " + out.inputs(g.first.in.form.body, of1) + ";");
    code.line("const auto gate_ins = " + out.inputs(g.second.in.form.body, of2) + ";");
    llvm::SmallVector<std::string, 12> arguments;
    arguments.append(
        {config, "x", cppScalar(Element::F32, g.scale), weights(g.first.in.form), "hidden_ins"});
    arguments.append({activate, weights(g.second.in.form), "gate_ins", excite, "outs"});
    if (g.gated) {
      code.line("const auto outs = " + out.outputs(g.in.form, ofX) + ";");
      code.line("const auto ins = " + out.inputs(*g.gated, ofX) + ";");
      const ScalarProgram &made = g.second.in.form.body;
      arguments.append({"ins", out.body(*g.gated, {made.nodes[made.outputs[0]].element})});
    } else {
      code.line("const auto outs = " + out.outputs(g.in.form, of2) + ";");
    }
    launch(out, g.gated ? "squeeze_excite_image" : "squeeze_excite", arguments);
  }
};

} // namespace

const Tactic &kSqueezeExcite = kTacticOf<SqueezeExcite>;

} // namespace tenon::cuda
