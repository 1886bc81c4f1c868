// Defines the tactics `conv`, `conv_dot` and `depthwise`: float convolutions with fused epilogues
// on runtime/cpu/conv.h, conv_dot.h and depthwise.h; and `conv_i8`, the first of these kernels with
// 8-bit integers, widened as they are loaded, and exact 32-bit sums.
#include "codegen/core/ConvProblem.h"
#include "codegen/core/TacticOf.h"
#include "codegen/core/TargetFamily.h"
#include "codegen/core/Work.h"
#include "codegen/cpu/shared/Operands.h"
#include "codegen/cpu/shared/Prologue.h"
#include "codegen/cpu/shared/Tile.h"
#include "codegen/cpu/shared/Window.h"
#include "codegen/forms/AnchorForms.h"
#include "ir/Context.h"

#include "llvm/Support/MathExtras.h"

namespace tenon::cpu {
namespace {

struct WindowProblem {
  GroupQuery in;
  ConvProblem conv;
  unsigned tensor; // the input of x's prologue that is x
  Strides x;       // of it, over (n, c, h, w)

  Element sums() const { return accumulatorOf(in.form.anchor->result()->type().element()); }
  unsigned width() const { return lanesFor(in.level, sums()); }
  /// Columns that one row of tiles covers.
  Dim columns() const {
    return conv.isPointwise() ? conv.outHeight * conv.outWidth : conv.outWidth;
  }
  int64_t columnsOfImage() const { return std::max<int64_t>(1, conv.outWidth.upper()); }
  /// Microseconds in which the group's bytes move, beside the arithmetic.
  double moving() const {
    return double(workOf(*in.form.group).bytes) / (in.level.bandwidthGBs * 1e3) * 0.2;
  }
};

Result<WindowProblem> windowProblem(const GroupQuery &in, bool int8) {
  if (auto anchor = matchAnchor(in, Op::Conv); !anchor)
    return std::move(anchor).refusal();
  const GroupForm &f = in.form;
  if (!int8 && !isFloat(f.anchor->operand(0)->type().element()))
    return Refusal{"integer operands", ""};
  auto conv = convProblem(*f.anchor);
  if (!conv)
    return std::move(conv).refusal();
  if (int8)
    if (auto operands = matchInt8Operands(f); !operands)
      return std::move(operands).refusal();
  WindowProblem p{in, *conv, 0, {}};
  const ScalarProgram &x = f.anchorInputs[0];
  auto tensor = prologueTensor(x, 1, p.sums());
  if (!tensor)
    return std::move(tensor).refusal();
  if (!constantOperand(f, 1))
    return Refusal{"weights known only at run time", ""};
  p.tensor = *tensor;
  p.x = inPlane(stridesOf(x.inputs[p.tensor], unsigned(x.space.size())), p.conv);
  return p;
}

/// As few columns as still need no further tile, of `most` at most.
int64_t evenColumns(const WindowProblem &p, int64_t most) {
  const int64_t width = p.columnsOfImage();
  return int64_t(llvm::divideCeil(width, llvm::divideCeil(width, std::max<int64_t>(1, most))));
}

/// Packs weights by `block` filters (0: one after the other), channels before the taps or behind.
void packWeights(const WindowProblem &p, int64_t block, bool channelsFirst,
                 llvm::SmallVectorImpl<Packing> &out) {
  const Value *source = p.in.form.anchorInputs[1].inputs[0].source;
  const Type w = source->type();
  llvm::SmallVector<LayoutAxis, 6> axes;
  axes.push_back({0, block, false, Dim(), 0});
  for (unsigned d = channelsFirst ? 1 : 2; d < w.rank(); ++d)
    axes.push_back({int(d), 0, false, Dim(), 0});
  if (!channelsFirst)
    axes.push_back({1, 0, false, Dim(), 0});
  if (block > 0)
    axes.push_back({0, block, true, Dim(), 0});
  out.push_back({source->index(), Layout::get(w.context(), axes)});
}

/// How a kernel differs from the others where it is called.
struct WindowCall {
  llvm::StringRef kernel; // and its header
  KeyValues schedule;
  bool depthwise = false;
  bool dot = false;
  bool pixelsOuter = false;
  bool oneLane = false;
};

/// What the kernels share: the window, the views, the call.
void emitWindow(const WindowProblem &problem, const WindowCall &call, StepWriter &out) {
  const GroupForm &form = problem.in.form;
  const Operation &op = *form.anchor;
  ConvProblem p = problem.conv;
  const Strides &x = problem.x;
  const ScalarProgram &xProgram = form.anchorInputs[0];
  const unsigned tensor = problem.tensor;
  const auto rank = unsigned(xProgram.space.size());

  // A 1x1 convolution walks the plane as one long row where every tensor allows it.
  bool flat =
      p.isPointwise() && !call.depthwise && mergesPlane(x, p.inWidth) && !form.body.usesIndex();
  for (const OutputForm &o : form.outputs)
    flat &= mergesPlane(inPlane(stridesOf(o, rank), p), p.outWidth);
  for (const Access &a : form.body.inputs)
    flat &= mergesPlane(inPlane(stridesOf(a, rank), p), p.outWidth);
  if (flat && p.spatialRank == 2) {
    p.inWidth = p.outWidth = p.outHeight * p.outWidth;
    p.inHeight = p.outHeight = p.outWidth.node()->context->dim(1);
  }

  out.include("cpu/" + call.kernel.str() + ".h");
  StepWriter::Config cfg(out, "config",
                         call.depthwise ? "cpu::depthwise_defaults" : "cpu::conv_defaults");
  cfg.extent("batch", p.batch).extent("out_h", p.outHeight).extent("out_w", p.outWidth);
  cfg.extent("in_h", p.inHeight).extent("in_w", p.inWidth);
  if (call.depthwise) {
    cfg.extent("channels", p.groups).extent("multiplier", p.filters);
  } else {
    cfg.extent("groups", p.groups).extent("filters", p.filters).extent("channels", p.channels);
  }
  writeWindow(cfg, p);
  for (auto &[key, value] : call.schedule)
    cfg.number(key, value);
  if (!xProgram.isPlainRead() || hasZeroPoint(form) || call.pixelsOuter)
    cfg.flag("filters_outer", false); // what a prologue made is kept for all filters
  // Dot products read taps and channels as one run of memory.
  if (call.dot &&
      !(x.strides[3].isConstant(p.channels) && (p.channels == 1 || x.strides[1].isConstant(1))))
    cfg.flag("pack_input", true);
  const Element e = problem.sums();
  if (call.oneLane)
    cfg.type("lanes", "scalar_lanes");
  else if (e == Element::F64)
    cfg.type("lanes", lanesType(problem.width()));
  cfg.type("accumulator", cppElement(e));
  const std::string config = cfg.finish();

  const std::string body = out.body(form.body, {op.result()->type().element()});
  const std::string prologue =
      prologueArguments(out, xProgram, tensor, 1) + zeroPointArguments(out, form);
  auto plane = [&](const Strides &strides) { return inPlane(strides, p); };
  SourceWriter &c = out.code();
  c.line("const auto x = " + out.view(xProgram.inputs[tensor].source, x) + ";");
  c.line("const auto *w = " +
         out.pointer(form.anchorInputs[1].inputs[0].source, x.offset.node()->context->dim(0)) +
         ";");
  c.line("const auto outs = " + out.outputs(form, plane) + ";");
  c.line("const auto ins = " + inputsIn(out, form.body, plane, planePlaces(p)) + ";");
  c.line("cpu::" + call.kernel.str() + "(" + config + ", x, w, outs, ins, " + body +
         ", *f.workers" + prologue + ");");
}

template <bool Int8> struct Blocked {
  static constexpr llvm::StringLiteral
      id = Int8 ? llvm::StringLiteral("conv_i8") : llvm::StringLiteral("conv"),
      summary = Int8 ? llvm::StringLiteral("convolution of 8-bit integers with exact 32-bit sums")
                     : llvm::StringLiteral("register-blocked direct convolution");
  using Problem = WindowProblem;
  using Schedule = TileSchedule;

  static Result<Problem> match(const GroupQuery &in) { return windowProblem(in, Int8); }

  static void candidates(const Problem &problem, std::vector<Schedule> &out) {
    const ConvProblem &p = problem.conv;
    const unsigned width = problem.width();
    // Blocks of filters must not straddle groups; single filters never do.
    const bool whole = p.groups == 1 || p.filters % width == 0;
    const Dim most = problem.columns();
    const Dim rows = hasPatches(problem) ? most : most.node()->context->dim(1);
    for (const TileShape &t :
         tileShapes(rows, p.filters, whole ? width : 1, problem.in.level.simdRegisters))
      if (p.groups == 1 || p.filters % t.nr == 0)
        out.push_back({t});
  }
  static Result<> legal(const Problem &problem, const Schedule &s) {
    const ConvProblem &p = problem.conv;
    if (p.groups > 1 && p.filters % s.nr != 0)
      return impossible<Blocked>(s, "nr does not divide the " + std::to_string(p.filters) +
                                        " filters of a group");
    if (s.mr > 1 && !hasPatches(problem))
      return impossible<Blocked>(s, "mr above 1 takes a patch on the stack, which is small here");
    return fitsRegisters(printSchedule(id, s), problem.in.level, s, lanesOf(problem, s), 0);
  }

  static double microseconds(const Problem &problem, const Schedule &s) {
    const ConvProblem &p = problem.conv;
    const double rows = p.isPointwise() ? 1 : double(p.outHeight.upper());
    return tileCost(problem.in.level, s, lanesOf(problem, s), problem.columns(), p.filters,
                    double(p.channels * p.kernelH * p.kernelW),
                    double(p.batch.upper()) * rows * double(p.groups)) +
           problem.moving();
  }

  static void pack(const Problem &p, const Schedule &s, llvm::SmallVectorImpl<Packing> &out) {
    packWeights(p, s.nr, /*channelsFirst=*/false, out);
  }

  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    WindowCall call{"conv", printedOf(s)};
    call.pixelsOuter = pixelsOuter(p.conv, s);
    call.oneLane = s.nr % p.width() != 0;
    emitWindow(p, call, out);
  }

private:
  /// Single columns need no patch with zeros on the stack of a microcontroller.
  static bool hasPatches(const Problem &p) { return p.in.level.family->facts.hosted; }
  /// Columns that are no whole vectors are taken one by one.
  static unsigned lanesOf(const Problem &p, const Schedule &s) {
    return s.nr % p.width() == 0 ? p.width() : 1;
  }
  /// Whether tiles of pixels are the outer loop: where one block of weights does not stay in the
  /// first cache anyway but all of them do in the second, the image is then read and written once.
  static bool pixelsOuter(const ConvProblem &p, const Schedule &s) {
    const int64_t depth = 4 * p.channels * p.kernelH * p.kernelW;
    return depth * s.nr > (24 << 10) && depth * p.filters <= (512 << 10);
  }
};

struct Dot {
  static constexpr llvm::StringLiteral id = "conv_dot",
                                       summary =
                                           "convolution with few filters, lanes along the taps";
  using Problem = WindowProblem;
  using Schedule = TileSchedule;

  /// Few filters, so that lanes along them would stay empty.
  static Result<Problem> match(const GroupQuery &in) {
    auto p = windowProblem(in, /*int8=*/false);
    if (!p)
      return p;
    if (p->conv.groups != 1)
      return Refusal{"several groups", ""};
    if (p->conv.dilationW != 1)
      return Refusal{"a dilation along the width", ""};
    if (p->conv.filters > 4 || p->conv.kernelW * p->conv.channels < in.level.simdWidth)
      return Refusal{"many filters, or short runs of taps", ""};
    if (in.level.simdWidth == 1)
      return Refusal{"no vectors", ""};
    return p;
  }

  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    for (int64_t nr : {4, 3, 2, 1})
      if (p.conv.filters % nr == 0) {
        const int64_t most = (int64_t(p.in.level.simdRegisters) - kOperands) / nr;
        out.push_back({{evenColumns(p, std::min<int64_t>(16, most)), nr}});
        return;
      }
  }
  static Result<> legal(const Problem &p, const Schedule &s) {
    if (p.conv.filters % s.nr != 0)
      return impossible<Dot>(s, "nr does not divide the " + std::to_string(p.conv.filters) +
                                    " filters");
    return fitsRegisters(printSchedule(id, s), p.in.level, s, 1, kOperands);
  }

  /// Whole vectors of taps at the rate of unaligned loads (half of the peak), and some eight
  /// instructions to add the lanes of each output.
  static double microseconds(const Problem &problem, const Schedule &) {
    const ConvProblem &p = problem.conv;
    const int64_t width = problem.width();
    const double outputs = double((p.batch * p.outHeight * p.outWidth).upper()) * double(p.filters);
    const double vectors =
        double(p.kernelH) * double(llvm::divideCeil(p.kernelW * p.channels, width)) + 4;
    return 2 * outputs * vectors * double(width) / (problem.in.level.peakGflops * 0.45e3) +
           problem.moving();
  }

  static void pack(const Problem &p, const Schedule &, llvm::SmallVectorImpl<Packing> &out) {
    packWeights(p, 0, /*channelsFirst=*/false, out);
  }

  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    WindowCall call{"conv_dot", printedOf(s)};
    call.dot = true;
    emitWindow(p, call, out);
  }

private:
  /// Registers beside the sums.
  static constexpr int64_t kOperands = 6;
};

struct Depthwise {
  static constexpr llvm::StringLiteral id = "depthwise",
                                       summary = "depthwise convolution, lanes along channels";
  using Problem = WindowProblem;
  using Schedule = RowSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    auto p = windowProblem(in, /*int8=*/false);
    if (!p)
      return p;
    if (!p->conv.isDepthwise())
      return Refusal{"not depthwise", ""};
    if (!in.form.anchorInputs[0].isPlainRead())
      return Refusal{"a prologue on the input", ""};
    return p;
  }

  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    const int64_t most = int64_t(p.in.level.simdRegisters) - operands(p);
    out.push_back({evenColumns(p, std::min<int64_t>(8, most))});
  }
  static Result<> legal(const Problem &p, const Schedule &s) {
    return fitsRegisters(printSchedule(id, s), p.in.level, {s.mr, 1}, 1, operands(p));
  }

  static double microseconds(const Problem &p, const Schedule &) {
    const Work w = workOf(*p.in.form.group);
    return std::max(w.flops / (p.in.level.peakGflops * 0.25e3),
                    double(w.bytes) / (p.in.level.bandwidthGBs * 1e3));
  }

  static void pack(const Problem &p, const Schedule &, llvm::SmallVectorImpl<Packing> &out) {
    packWeights(p, p.width(), /*channelsFirst=*/true, out);
  }

  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    WindowCall call{"depthwise", printedOf(s)};
    call.depthwise = true;
    emitWindow(p, call, out);
  }

private:
  /// Registers beside the sums: a row of taps, an element, a bound.
  static int64_t operands(const Problem &p) { return p.conv.kernelW + 2; }
};

} // namespace

const Tactic &kConv = kTacticOf<Blocked<false>>;
const Tactic &kConvInt8 = kTacticOf<Blocked<true>>;
const Tactic &kConvDot = kTacticOf<Dot>;
const Tactic &kDepthwise = kTacticOf<Depthwise>;

} // namespace tenon::cpu
