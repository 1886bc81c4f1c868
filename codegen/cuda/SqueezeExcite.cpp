// Defines the tactic `squeeze_excite`: the means of an image's channels and two products with
// constant weights as one kernel of a cluster of blocks (runtime/cuda/squeeze_excite.cuh). It takes
// the chains that fuse.squeeze-excite makes, and with fuse.gated-image what the gates make of the
// image.
#include "codegen/cuda/Tactics.h"

#include "codegen/Reduction.h"
#include "codegen/cuda/Contraction.h"
#include "codegen/emit/CppText.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cmath>

namespace tenon::cuda {
namespace {

/// A product of one row an image with constant weights.
Result<ContractionProblem> readProduct(const GroupQuery &in) {
  return readContraction(in, [&](const Contraction &c) -> Result<> {
    if (auto rows = multipliesRows(c); !rows)
      return rows;
    if (c.transA)
      return Refusal{"rows that do not lie side by side", ""};
    if (!isFloat(c.b) || bitWidth(c.b) < 16 || computeElement(c.b) != Element::F32 ||
        computeElement(in.form.anchor->operand(0)->type().element()) != Element::F32)
      return Refusal{"operands that are not computed in f32", ""};
    return Accepted{};
  });
}

/// The constant by which the program multiplies what the anchor gives; None where it does more.
llvm::Optional<double> scaleOf(const ScalarProgram &p) {
  std::vector<llvm::Optional<double>> factors; // of the anchor's result, by node
  auto constant = [&](unsigned n) -> llvm::Optional<double> {
    const ScalarNode &node = p.nodes[n];
    if (node.kind != ScalarNode::Function || !node.op->is(Op::Const) || !isFloat(node.element))
      return llvm::None;
    return node.op->floatAttr("value");
  };
  auto times = [](llvm::Optional<double> factor, llvm::Optional<double> c) {
    return factor && c ? llvm::Optional<double>(*factor * *c) : llvm::None;
  };
  for (const ScalarNode &n : p.nodes) {
    llvm::Optional<double> factor;
    if (n.kind == ScalarNode::Anchor) {
      factor = 1;
    } else if (n.kind == ScalarNode::Function && n.op->is(Op::Cast) && isFloat(n.element) &&
               !n.op->boolAttr("rounds")) {
      factor = factors[n.operands[0]];
    } else if (n.kind == ScalarNode::Function && n.op->is(Op::Mul)) {
      factor = times(factors[n.operands[0]], constant(n.operands[1]));
      if (!factor)
        factor = times(factors[n.operands[1]], constant(n.operands[0]));
    } else if (n.kind == ScalarNode::Function && n.op->is(Op::Div)) {
      if (const auto divisor = constant(n.operands[1]))
        factor = times(factors[n.operands[0]], 1 / *divisor);
    }
    factors.push_back(factor);
  }
  return p.outputs.size() == 1 && p.inputs.empty() ? factors[p.outputs[0]] : llvm::None;
}

/// A chain as the kernel takes it.
struct Gates {
  GroupQuery in;
  ContractionProblem first, second; // products
  /// What the gates make of the image; its body has them as the anchor's result. None: they are the
  /// result.
  llvm::Optional<ScalarProgram> gated = {};
  double scale = 1; // of sums over pixels
  /// What the kernel adds up: elements over a space of images, pixels and channels.
  ScalarProgram x = {};
  unsigned image = 0, channel = 1;
  llvm::SmallVector<unsigned, 4> pixels = {};

  Dim images() const { return rowsOf(second.c); }
  int64_t channels() const { return first.c.depth(); }
  int64_t hidden() const { return first.c.columns(); }
  int64_t outputs() const { return second.c.columns(); }
  int64_t pixelCount() const {
    int64_t n = 1;
    for (unsigned d : pixels)
      n *= std::max<int64_t>(1, x.space[d].upper());
    return n;
  }
};

/// Without conversions to wider floats, which loading does anyway.
ScalarProgram asStored(const ScalarProgram &p) {
  unsigned n = p.outputs[0];
  while (p.nodes[n].kind == ScalarNode::Function && p.nodes[n].op->is(Op::Cast) &&
         p.nodes[n].element == Element::F32 &&
         computeElement(p.nodes[p.nodes[n].operands[0]].element) == Element::F32)
    n = p.nodes[n].operands[0];
  if (p.nodes[n].kind != ScalarNode::Input || p.inputs.size() != 1)
    return p;
  ScalarProgram stored;
  stored.space = p.space;
  stored.inputs = p.inputs;
  stored.nodes = {p.nodes[n]};
  stored.outputs = {0};
  return stored;
}

/// Sums over all dimensions but that of images and one more, scaled.
Result<> readMeans(const GroupForm &form, Gates &g) {
  const Operation &op = *form.anchor;
  if (!op.is(Op::Reduce) || op.numOperands() != 1 || op.numResults() != 1 ||
      op.floatsAttr("init")[0] != 0)
    return Refusal{"no sum of one tensor", ""};
  const Reduction r = reduction(form);
  const ScalarNode &step = r.combine.nodes[r.combine.outputs[0]];
  if (!r.splits || step.kind != ScalarNode::Function || !step.op->is(Op::Add))
    return Refusal{"another reduction than a sum", ""};
  const unsigned rank = unsigned(r.pre.space.size());
  llvm::SmallVector<unsigned, 4> kept;
  for (unsigned d = 0; d < rank; ++d)
    (llvm::is_contained(op.intsAttr("axes"), int64_t(d)) ? g.pixels : kept).push_back(d);
  if (kept.size() != 2 || g.pixels.empty())
    return Refusal{"not one mean for every channel of an image", ""};
  const auto scale = scaleOf(form.body);
  if (!scale)
    return Refusal{"sums that are not scaled by a constant", ""};
  g.scale = *scale;
  g.x = asStored(r.pre);
  g.image = kept[0];
  g.channel = kept[1];
  return Accepted{};
}

/// The map over the image, with the gates as results of an anchor.
Result<> readImage(const GroupQuery &in, Gates &g) {
  const ScalarProgram &body = in.form.body;
  if (auto plain = isPlainBody(body); !plain)
    return plain;
  if (g.x.space.size() != body.space.size() || g.outputs() != g.channels())
    return Refusal{"gates of another image", ""};
  constexpr unsigned kGate = ~0u;
  ScalarProgram image;
  image.space = body.space;
  image.outputs = body.outputs;
  llvm::SmallVector<unsigned, 4> placeOf; // of inputs
  for (const Access &a : body.inputs) {
    if (a.source->argumentOf()) {
      placeOf.push_back(unsigned(image.inputs.size()));
      image.inputs.push_back(a);
      continue;
    }
    placeOf.push_back(kGate);
    for (const AccessDim &d : a.dims)
      if (d.dim >= 0 && d.dim != int(g.image) && d.dim != int(g.channel))
        return Refusal{"gates that vary within a channel", ""};
  }
  for (ScalarNode n : body.nodes) {
    if (n.kind == ScalarNode::Input && placeOf[n.index] == kGate) {
      n.kind = ScalarNode::Anchor;
      n.index = 0;
    } else if (n.kind == ScalarNode::Input) {
      n.index = placeOf[n.index];
    }
    image.nodes.push_back(n);
  }
  g.gated = std::move(image);
  return Accepted{};
}

Result<Gates> readGates(const GroupQuery &in) {
  llvm::ArrayRef<GroupForm> before = in.form.before;
  const GroupForm *last = &in.form;
  if (!in.form.anchor) {
    last = &before.back();
    before = before.drop_back();
  }
  if (before.size() != 2)
    return Refusal{"not three anchors", ""};
  auto first = readProduct({before.back(), in.level, in.alignment}),
       second = readProduct({*last, in.level, in.alignment});
  if (!first || !second)
    return (second ? std::move(first) : std::move(second)).refusal();
  Gates g{in, *std::move(first), *std::move(second)};
  if (g.first.c.b != g.second.c.b || g.hidden() != g.second.c.depth())
    return Refusal{"weights that do not belong together", ""};
  if (auto means = readMeans(before[0], g); !means)
    return std::move(means).refusal();
  if (!g.x.space[g.channel].isConstant(g.channels()) || g.x.space[g.image] != g.images())
    return Refusal{"products that mix images", ""};
  if (!in.form.anchor)
    if (auto image = readImage(in, g); !image)
      return std::move(image).refusal();
  return g;
}

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
constexpr int64_t kMostOfCluster = 8;

/// Blocks of a cluster along channels and pixels, and what follows for one block.
struct Parts : GatesSchedule {
  int64_t run, channelRuns, hiddenRuns, outputs;

  Parts(const Gates &g, const GatesSchedule &s)
      : GatesSchedule(s), run(128 / bitWidth(g.first.c.b)),
        channelRuns(ceilDiv(ceilDiv(g.channels(), run), channelParts)),
        hiddenRuns(ceilDiv(g.hidden(), run)),
        outputs(g.gated ? channelRuns * run : ceilDiv(g.outputs(), channelParts * pixelParts)) {}

  int64_t blocks() const { return channelParts * pixelParts; }
  /// Threads that add up a channel's sums.
  int64_t shares() const {
    return std::min(threads / channelRuns, std::max<int64_t>(1, threads / (channelRuns * run)));
  }
  int64_t weightBytes(const Gates &g) const {
    return 16 * (g.hidden() * channelRuns + outputs * hiddenRuns);
  }
  /// As the kernel has it.
  int64_t sharedBytes(const Gates &g) const {
    const int64_t channels = channelRuns * run, lanes = threads / channelRuns;
    return 16 + 4 * channels * (lanes + shares() + 1) + 4 * hiddenRuns * run * (blocks() + 2) +
           (g.gated ? 4 * channels : 0) + (staged ? weightBytes(g) : 0);
  }
};

/// Whether every block has channels and pixels, every run of channels a thread.
bool hasWork(const Gates &g, const Parts &p) {
  return p.channelParts <= ceilDiv(g.channels(), p.run) &&
         (p.pixelParts == 1 || p.pixelParts <= g.pixelCount()) && p.channelRuns <= p.threads;
}

/// Microseconds. Source: fitted to bench/squeeze_excite_h100.csv (46 blocks of EfficientNet,
/// RegNet, SE-ResNet and MobileNetV3 at batch 1, 8 and 64, up to 30 schedules each); of the ten
/// fastest of each the rms error is 16 %.
constexpr double kBlock = 1.7;      // a block's barriers and stores, beside the launch
constexpr double kExchange = 0.62;  // between blocks
constexpr double kRound = 0.114;    // loads of pixels under way together
constexpr double kThreads = 0.194;  // of 1024 threads' barriers
constexpr double kUnstaged = 1.6;   // weights that are read when they are needed
constexpr double kPixels = 0.011;   // a KB of them
constexpr double kWeights = 0.0256; // a KB that is read when needed
constexpr double kStaged = 0.0057;  // and one that is copied before
constexpr double kShares = 0.022;   // each of the sums that a thread adds up
constexpr double kRows = 0.097;     // each round of loads of weights
constexpr double kMegabyte = 0.256; // of the whole tensor
/// The image once more and what becomes of it, over the image once: an assumption, not measured.
constexpr double kImage = 2.5;
constexpr double kNeighbour = 4.4;  // each block more on a multiprocessor
constexpr double kBandwidth = 4190; // of the level that these are of, GB/s

struct SqueezeExcite {
  static constexpr llvm::StringRef id = "squeeze_excite",
                                   summary = "the gates of squeeze-and-excitation, a cluster of "
                                             "blocks an image";
  static constexpr bool takesChains = true;
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
          if (!hasWork(g, Parts(g, s)))
            continue;
          s.staged = Parts(g, s).sharedBytes(g) <= most / 2;
          if (Parts(g, s).sharedBytes(g) <= most)
            out.push_back(s);
        }
  }

  static Result<> legal(const Problem &g, const Schedule &s) {
    const Parts p(g, s);
    if (p.blocks() > kMostOfCluster)
      return impossible<SqueezeExcite>(s, "channel_parts x pixel_parts, the blocks of a cluster, "
                                          "are more than " +
                                              std::to_string(kMostOfCluster));
    if (!hasWork(g, p))
      return impossible<SqueezeExcite>(
          s, "more parts than there are " + std::to_string(ceilDiv(g.channels(), p.run)) +
                 " runs of channels or " + std::to_string(g.pixelCount()) +
                 " pixels, or more runs than threads");
    if (p.sharedBytes(g) > int64_t(g.in.level.sharedBytes))
      return impossible<SqueezeExcite>(s, std::to_string(p.sharedBytes(g)) +
                                              " bytes of shared memory of " +
                                              std::to_string(g.in.level.sharedBytes));
    return Accepted{};
  }

  static double microseconds(const Problem &g, const Schedule &s) {
    const Parts p(g, s);
    const double images = double(std::max<int64_t>(1, g.images().upper()));
    const int64_t lanes = p.threads / p.channelRuns, ahead = p.threads > 512 ? 4 : 8;
    const int64_t pixels = ceilDiv(g.pixelCount(), p.pixelParts);
    // Lanes that share a row of weights, as the kernel has them.
    auto rounds = [&](int64_t rows, int64_t runs) {
      const int64_t sharing = runs > 16 ? 32 : runs > 8 ? 16 : runs > 4 ? 8 : 4;
      return double(ceilDiv(rows, p.threads / sharing) * ceilDiv(runs, sharing));
    };
    const double passes = g.gated ? 1 + kImage : 1;
    const double latency =
        (p.blocks() > 1 ? kExchange : 0) +
        passes * kRound * double(ceilDiv(pixels, lanes * ahead)) +
        kThreads * double(p.threads) / 1024 + (p.staged ? 0 : kUnstaged) +
        kShares * double(lanes) / double(p.shares()) +
        kRows * (rounds(g.hidden(), p.channelRuns) + rounds(p.outputs, p.hiddenRuns));
    const auto piece = double(llvm::alignTo(uint64_t(16 * p.channelRuns), 32)); // of memory's lines
    const double reading = passes * kPixels * double(pixels) * piece / 1e3 +
                           (p.staged ? kStaged : kWeights) * double(p.weightBytes(g)) / 1e3;
    const double sms = std::max(1u, g.in.level.multiprocessors),
                 blocks = images * double(p.blocks());
    const double most = std::max(1.0, std::min({2048.0 / double(p.threads), 8.0,
                                                std::floor(double(g.in.level.sharedBytes) /
                                                           double(p.sharedBytes(g) + 1024))}));
    const double together = std::min(most, std::max(1.0, std::ceil(blocks / sms)));
    const double waves = std::max(1.0, std::ceil(blocks / (sms * most)));
    const double bytes = images * double(g.pixelCount() * g.channels() * bitWidth(g.first.c.b)) / 8;
    return g.in.level.launchMicroseconds + kBlock +
           waves * (latency + together * reading + kNeighbour * (together - 1)) +
           passes * kMegabyte * bytes / 1e6 * (kBandwidth / g.in.level.bandwidthGBs);
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

    out.include("cuda/squeeze_excite.cuh");
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

const Tactic kSqueezeExcite = tacticOf<SqueezeExcite>();

} // namespace tenon::cuda
