// Defines the tactic `expand_depthwise_sm80`: a 1x1 convolution and the depthwise convolution of
// what it makes as one kernel (runtime/cuda/expand_depthwise/kernel.cuh).
#include "codegen/core/TacticOf.h"
#include "codegen/core/Work.h"
#include "codegen/cuda/shared/Contraction.h"
#include "runtime/cuda/expand_depthwise/geometry.h"

#include <algorithm>
#include <cmath>

namespace tenon::cuda {
namespace {

constexpr int64_t kMostDepth = 256; // of the first convolution
constexpr int64_t kColumns = 4;     // outputs of a thread

/// The two convolutions; the first has one tap.
struct Layers {
  ConvProblem expand, depthwise;

  int64_t depth() const { return expand.channels; }
  int64_t channels() const { return expand.filters; }
};

struct ExpandSchedule {
  int64_t h, w, chunk, columns, parts, warps, widened;

  static llvm::ArrayRef<Field<ExpandSchedule>> fields() {
    static const Field<ExpandSchedule> kFields[] = {
        {"tile_h", &ExpandSchedule::h, between(1, 64)},
        {"tile_w", &ExpandSchedule::w, between(4, 64)},
        {"chunk", &ExpandSchedule::chunk, oneOf(16, 32, 48, 64)},
        {"columns", &ExpandSchedule::columns, oneOf(kColumns)},
        {"parts", &ExpandSchedule::parts, between(1, 1 << 20)},
        {"warps", &ExpandSchedule::warps, oneOf(4, 8)},
        {"widened", &ExpandSchedule::widened, oneOf(0, 1)},
    };
    return kFields;
  }

  expand_depthwise_geometry geometry(const Layers &l) const {
    const ConvProblem &d = l.depthwise;
    return {l.depth(), l.channels(), d.kernelH, d.kernelW,   d.strideH, d.strideW, h,
            w,         chunk,        warps,     widened != 0};
  }
  int64_t chunks(const Layers &l) const { return geometry(l).chunks(); }
  int64_t sharedBytes(const Layers &l) const { return geometry(l).shared_bytes(); }
  /// Tiles of all images; 1 where there are none.
  int64_t count(const Layers &l) const {
    const ConvProblem &d = l.depthwise;
    return std::max<int64_t>(1, d.batch.upper() * ceilDiv(d.outHeight.upper(), h) *
                                    ceilDiv(d.outWidth.upper(), w));
  }
};

/// Warps of a block. Blocks of 4 are the fastest in 12 of the 54 pairs of layers below, by 0.7 % in
/// the mean over all, and estimates lose more than that where they prefer them: 1.4 %.
constexpr int64_t kWarps = 8;

/// All tiles that fit.
std::vector<ExpandSchedule> tilesOf(const Layers &l, const TargetLevel &level) {
  constexpr int64_t kTiles[][2] = {{4, 8},  {8, 8},  {4, 16}, {8, 16},  {7, 8},
                                   {7, 16}, {4, 28}, {8, 28}, {14, 16}, {16, 16}};
  const int64_t height = l.depthwise.outHeight.upper(), width = l.depthwise.outWidth.upper();
  const int64_t sms = level.multiprocessors;
  std::vector<ExpandSchedule> all;
  for (auto [h, w] : kTiles) {
    if (h >= 2 * height || w >= 2 * std::max<int64_t>(width, 4))
      continue; // more than half of it lies outside
    for (int64_t chunk : {16, 32, 48, 64}) {
      if (chunk > 16 && chunk >= 2 * l.channels())
        continue;
      for (int64_t widened : {0, 1}) {
        ExpandSchedule t{h, w, chunk, kColumns, 1, kWarps, widened};
        if (t.sharedBytes(l) > int64_t(level.sharedBytes))
          continue;
        // Parts that give each multiprocessor a block, two, or four.
        int64_t last = 0;
        for (int64_t blocks : {int64_t(0), sms, 2 * sms, 4 * sms}) {
          t.parts = std::min(std::max<int64_t>(1, ceilDiv(blocks, t.count(l))), t.chunks(l));
          if (t.parts != last)
            all.push_back(t);
          last = t.parts;
        }
      }
    }
  }
  return all;
}

Result<> takes(const Layers &l, const TargetLevel &level) {
  const ConvProblem &e = l.expand, &d = l.depthwise;
  if (level.sm < 80)
    return Refusal{"no kernel for it before sm_80", ""};
  if (!e.isPointwise() || e.groups != 1 || e.isVolume())
    return Refusal{"the first convolution has a window or groups", ""};
  if (!d.isDepthwise() || d.filters != 1 || d.isVolume() || d.dilationH != 1 || d.dilationW != 1 ||
      d.kernelH > 7 || d.kernelW > 7 || d.strideH > 2 || d.strideW > 2)
    return Refusal{"the second convolution is not depthwise with windows of up to 7x7 neighbours",
                   ""};
  if (l.depth() % 8 != 0 || l.depth() > kMostDepth)
    return Refusal{std::to_string(l.depth()) + " channels before the first convolution", ""};
  if (tilesOf(l, level).empty())
    return Refusal{"no tiles for it", ""};
  return Accepted{};
}

/// Nanoseconds, as a clock of 1.7 GHz has them; the last two are factors.
struct ExpandCosts {
  /// Before a block's first chunk, for each 1000 elements of its pixels; at a chunk's barriers.
  double start, pixels, barriers;
  /// For 16 pixels of a warp, and in them a step along K and 8 channels.
  double rows, step, sums;
  /// For an item of a thread's folding, and in it a row of windows' loads, of elements and of
  /// widened ones, and a tap.
  double fold, load, loadWidened, tap;
  /// That it keeps others on the multiprocessor waiting: for multiplications and 8 channels of 16
  /// pixels; for loads, taps and the rest of a warp's folding.
  double busyStep, busySums, busyLoad, busyLoadWidened, busyTap, busyFold;
  /// The part of a block's waiting that those after it wait for.
  double nextWave;
  /// What moves while something else is computed, as a part of its time, and the reverse.
  double hidden;

  static constexpr llvm::StringLiteral family = "expand_depthwise";
};
constexpr ExpandCosts kCosts = {
#include "codegen/cuda/expand_depthwise/costs.inc"
};

/// Microseconds: waves of resident blocks, each of which goes through its chunks.
double microsecondsOf(const Layers &l, const ExpandSchedule &t, const TargetLevel &level,
                      double bytes, const ExpandCosts &c) {
  const ConvProblem &d = l.depthwise;
  const expand_depthwise_geometry shape = t.geometry(l);
  const double chunks = double(ceilDiv(shape.chunks(), t.parts)), of8 = double(t.chunk) / 8;
  const double steps = double(shape.steps()), taps = double(shape.taps());
  const double loads = double(d.kernelH * ((kColumns - 1) * d.strideW + 2 * d.kernelW));
  const int64_t items = t.h * t.w / kColumns * (t.chunk / 4), threads = shape.threads();
  const double alone =
      c.start + c.pixels * double(shape.pixels() * l.depth()) / 1000 +
      chunks *
          (c.barriers +
           double(ceilDiv(shape.row_blocks(), t.warps)) * (c.rows + c.step * steps + c.sums * of8) +
           double(ceilDiv(items, threads)) *
               (c.fold + (t.widened ? c.loadWidened : c.load) * loads + c.tap * taps));
  const double busy =
      chunks *
      (double(shape.row_blocks()) * (c.busyStep * steps * (1 + 1.5 * of8) + c.busySums * of8) +
       double(items) / 32 *
           ((t.widened ? c.busyLoadWidened : c.busyLoad) * loads + c.busyTap * taps + c.busyFold));
  const double blocks = double(t.count(l) * t.parts), sms = std::max(1u, level.multiprocessors);
  const double resident = std::max(
      1.0, std::min({std::floor(double(level.sharedBytes) / double(shape.shared_bytes() + 1024)),
                     std::floor(768 / double(threads)), 8.0}));
  const double waves = std::ceil(blocks / (sms * resident));
  const double time = (alone * (1 + c.nextWave * (waves - 1)) + blocks / sms * busy) / 1000;
  Effort e;
  e.bytes = bytes;
  e.launches = 0;
  const double moving = microseconds(level, e);
  return level.launchMicroseconds + std::max(time, moving) + c.hidden * std::min(time, moving);
}

bool isPointConv(const Operation &op) {
  return op.is(Op::Conv) && llvm::all_of(op.operand(1)->type().shape().drop_front(2),
                                         [](Dim d) { return d.isConstant(1); });
}
bool isGrouped(const Operation &op) { return op.is(Op::Conv) && op.intAttr("groups", 1) > 1; }

struct ExpandDepthwise : PricedBy<kCosts> {
  static constexpr llvm::StringRef id = "expand_depthwise_sm80",
                                   summary = "fp16 and bf16 1x1 convolution on Tensor Cores and "
                                             "the depthwise one of its results";
  static constexpr ChainPart kParts[] = {{isPointConv, 1}, {isGrouped, 1}};
  static constexpr Chain chains[] = {
      {"fuse.expand-depthwise", "a 1x1 convolution and the depthwise convolution of what it makes",
       kParts}};
  struct Problem {
    GroupQuery in;
    ContractionProblem expand;
    ConvProblem depthwise;
    double bytes; // that move

    Layers layers() const { return {expand.c.conv, depthwise}; }
  };
  using Schedule = ExpandSchedule;

  static bool forTensorCores(const GroupQuery &in) {
    return in.form.isChain() && in.level.sm >= 80;
  }

  static Result<Problem> match(const GroupQuery &in) {
    const GroupForm &form = in.form;
    if (form.before.size() != 1 || !matchAnchor(in, Op::Conv))
      return Refusal{"not two convolutions", ""};
    const GroupForm &before = form.before[0];
    if (!before.anchor->is(Op::Conv))
      return Refusal{"no convolution before the depthwise one", ""};
    const GroupQuery expansion{before, in.level, in.alignment};
    auto c = readContraction(expansion);
    if (!c)
      return std::move(c).refusal();
    const auto d = convProblem(*form.anchor);
    if (!d)
      return d.refusal();
    auto taken = takes({c->conv, *d}, in.level)
                     .andThen([&] { return isOfChannels(before.body); })
                     .andThen([&] { return isPlainBody(form.body); })
                     .andThen([&] { return fitsInt(form); })
                     .andThen([&] { return fitsInt(before); });
    if (!taken)
      return std::move(taken).refusal();
    if (c->hasPrologue || !multipliesOn(kMmaSm80, expansion, *c))
      return Refusal{"a prologue, or operands that are not both fp16 or both bf16", ""};
    const ScalarProgram &x = before.anchorInputs[0], &made = form.anchorInputs[0];
    if (!stridesOf(x.inputs[c->mainInput], unsigned(x.space.size())).strides[1].isConstant(1))
      return Refusal{"channels that do not lie side by side", ""};
    if (!made.isPlainRead() || made.inputs[0].source->argumentOf() ||
        made.nodes[made.outputs[0]].element != c->b || !constantOperand(form, 1) ||
        constantOperand(form, 1)->type().element() != c->b)
      return Refusal{"a depthwise convolution of something else, or of another type", ""};
    return Problem{in, {expansion, *std::move(c), movedBytes(expansion)}, *d, movedBytes(in)};
  }

  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    out = tilesOf(p.layers(), p.in.level);
  }

  static Result<> legal(const Problem &p, const Schedule &s) {
    const Layers l = p.layers();
    if (s.w % kColumns != 0)
      return impossible<ExpandDepthwise>(s, "tile_w is no multiple of columns");
    if (s.parts > s.chunks(l))
      return impossible<ExpandDepthwise>(s, "parts are more than the chunks of channels, " +
                                                std::to_string(s.chunks(l)));
    return fitsShared(p.in.level, printSchedule(id, s), s.sharedBytes(l));
  }

  static double microseconds(const Problem &p, const Schedule &s, const Costs &c) {
    return microsecondsOf(p.layers(), s, p.in.level, p.bytes, c);
  }

  static void pack(const Problem &p, const Schedule &, llvm::SmallVectorImpl<Packing> &out) {
    packPaddedRows(p.expand, out);
    packDepthwiseFilters(p.in.form, out);
  }

  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    const Layers l = p.layers();
    const GroupForm &first = p.expand.in.form;
    const ConvProblem &d = l.depthwise;
    const auto over = [&](const Strides &x) { return inPlane(x, d); };
    const ScalarProgram &program = first.anchorInputs[0];
    Value *x = program.inputs[p.expand.c.mainInput].source;
    const Strides image = inPlane(
        stridesOf(program.inputs[p.expand.c.mainInput], unsigned(program.space.size())), l.expand);
    const auto frontOver = [&](const Strides &x) { return inPlane(x, l.expand); };
    const Dim zero = p.in.form.anchor->result()->type().context().dim(0);

    out.include("cuda/expand_depthwise/kernel.cuh");
    StepWriter::Config cfg(out, "config");
    cfg.extent("batch", d.batch).extent("in_h", d.inHeight).extent("in_w", d.inWidth);
    cfg.extent("out_h", d.outHeight).extent("out_w", d.outWidth);
    cfg.number("depth", l.depth()).number("channels", l.channels());
    cfg.number("kernel_h", d.kernelH).number("kernel_w", d.kernelW);
    cfg.number("stride_h", d.strideH).number("stride_w", d.strideW);
    cfg.number("pad_top", d.padTop).number("pad_left", d.padLeft);
    for (auto &[key, value] : membersOf(s))
      if (key != "widened")
        cfg.number(key, value);
    cfg.flag("widened", s.widened);
    const bool aligned =
        areResultsAligned(p.in.form, out, over) && areInputsAligned(first.body, out, frontOver);
    cfg.flag("aligned", out.isAligned(x, image.offset, 16)).flag("aligned_results", aligned);
    const std::string config = cfg.finish();
    const std::string front =
        out.body(first.body, {first.anchor->result()->type().element()}, "front");
    const std::string body =
        out.body(p.in.form.body, {p.in.form.anchor->result()->type().element()});
    const auto weights = [&](const GroupForm &form) {
      return out.pointer(form.anchorInputs[1].inputs[0].source, zero);
    };
    SourceWriter &code = out.code();
    code.line("const auto x = " + out.view(x, image) + ";");
    code.line("const auto front_ins = " + out.inputs(first.body, frontOver) + ";");
    code.line("const auto outs = " + out.outputs(p.in.form, over) + ";");
    code.line("const auto ins = " + out.inputs(p.in.form.body, over) + ";");
    launch(
        out, "expand_depthwise_sm80",
        {config, "x", weights(first), weights(p.in.form), "front_ins", front, "outs", "ins", body});
  }
};

} // namespace

const Tactic &kExpandDepthwiseSm80 = kTacticOf<ExpandDepthwise>;

} // namespace tenon::cuda
