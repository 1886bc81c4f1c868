// Defines the tactics `conv`, `conv_dot` and `depthwise`: float convolutions with fused epilogues
// on runtime/cpu/conv.h, conv_dot.h and depthwise.h; and `conv_i8`, the first of these kernels with
// 8-bit integers, widened as they are loaded, and exact 32-bit sums.
#include "codegen/core/TargetFamily.h"
#include "codegen/cpu/Tactics.h"

#include "codegen/AnchorForms.h"
#include "codegen/ConvProblem.h"
#include "codegen/Work.h"
#include "codegen/cpu/Operands.h"
#include "codegen/cpu/Prologue.h"
#include "codegen/cpu/Tile.h"
#include "codegen/cpu/Window.h"
#include "ir/Context.h"

#include "llvm/Support/MathExtras.h"

namespace tenon::cpu {
namespace {

bool matchFloat(const TacticInput &in, std::string &why, llvm::Optional<ConvProblem> &problem) {
  if (!matchAnchor(in, Op::Conv, why))
    return false;
  const GroupForm &f = in.form;
  if (!isFloat(f.anchor->operand(0)->type().element())) {
    why = "integer operands";
    return false;
  }
  problem = convProblem(*f.anchor, why);
  const Element sums = accumulatorOf(f.anchor->result()->type().element());
  if (!problem || !prologueTensor(f.anchorInputs[0], 1, sums, why))
    return false;
  if (!constantOperand(f, 1)) {
    why = "weights known only at run time";
    return false;
  }
  return true;
}

bool matchConv(const TacticInput &in, std::string &why) {
  llvm::Optional<ConvProblem> p;
  return matchFloat(in, why, p);
}

bool matchInt8(const TacticInput &in, std::string &why) {
  if (!matchAnchor(in, Op::Conv, why))
    return false;
  const GroupForm &f = in.form;
  return convProblem(*f.anchor, why) && matchInt8Operands(f, why);
}

bool matchDepthwise(const TacticInput &in, std::string &why) {
  llvm::Optional<ConvProblem> p;
  if (!matchFloat(in, why, p))
    return false;
  if (!p->isDepthwise()) {
    why = "not depthwise";
    return false;
  }
  if (!in.form.anchorInputs[0].isPlainRead()) {
    why = "a prologue on the input";
    return false;
  }
  return true;
}

/// Few filters, so that lanes along them would stay empty.
bool matchDot(const TacticInput &in, std::string &why) {
  llvm::Optional<ConvProblem> p;
  if (!matchFloat(in, why, p))
    return false;
  if (p->groups != 1 || p->dilationW != 1) {
    why = p->groups != 1 ? "several groups" : "a dilation along the width";
    return false;
  }
  if (p->filters > 4 || p->kernelW * p->channels < in.level.simdWidth) {
    why = "many filters, or short runs of taps";
    return false;
  }
  return in.level.simdWidth > 1;
}

unsigned widthOf(const TacticInput &in) {
  return lanesFor(in.level, accumulatorOf(in.form.anchor->result()->type().element()));
}

/// Columns that one row of tiles covers.
Dim columns(const ConvProblem &p) {
  return p.isPointwise() ? p.outHeight * p.outWidth : p.outWidth;
}

void enumerateTiles(const TacticInput &in, llvm::StringRef tactic,
                    llvm::SmallVectorImpl<Schedule> &out) {
  std::string why;
  const ConvProblem p = *convProblem(*in.form.anchor, why);
  const unsigned width = widthOf(in);
  // Blocks of filters must not straddle groups; single filters never do.
  const bool whole = p.groups == 1 || p.filters % width == 0;
  // Single columns need no patch with zeros on the stack of a microcontroller.
  const Dim most = columns(p);
  const Dim rows = !in.level.family->facts.hosted ? most.node()->context->dim(1) : most;
  for (const TileShape &t : tileShapes(rows, p.filters, whole ? width : 1, in.level.simdRegisters))
    if (p.groups == 1 || p.filters % t.nr == 0)
      out.push_back({tactic.str(), {{"mr", t.mr}, {"nr", t.nr}}});
}
void enumerateConv(const TacticInput &in, llvm::SmallVectorImpl<Schedule> &out) {
  enumerateTiles(in, "conv", out);
}
void enumerateInt8(const TacticInput &in, llvm::SmallVectorImpl<Schedule> &out) {
  enumerateTiles(in, "conv_i8", out);
}

double costConv(const TacticInput &in, const Schedule &s) {
  std::string why;
  const ConvProblem p = *convProblem(*in.form.anchor, why);
  const unsigned width = *s.get("nr") % widthOf(in) == 0 ? widthOf(in) : 1;
  const double rows = p.isPointwise() ? 1 : double(p.outHeight.upper());
  return tileCost(in.level, {*s.get("mr"), *s.get("nr")}, width, columns(p), p.filters,
                  double(p.channels * p.kernelH * p.kernelW),
                  double(p.batch.upper()) * rows * double(p.groups)) +
         double(workOf(*in.form.group).bytes) / (in.level.bandwidthGBs * 1e3) * 0.2;
}

void packConv(const TacticInput &in, const Schedule &s, llvm::SmallVectorImpl<Packing> &out) {
  const Value *source = in.form.anchorInputs[1].inputs[0].source;
  const Type w = source->type();
  const int64_t nr = *s.get("nr");
  llvm::SmallVector<LayoutAxis, 6> axes;
  axes.push_back({0, nr, false, Dim(), 0});
  for (unsigned d = 2; d < w.rank(); ++d)
    axes.push_back({int(d), 0, false, Dim(), 0});
  axes.push_back({1, 0, false, Dim(), 0});
  axes.push_back({0, nr, true, Dim(), 0});
  out.push_back({source->index(), Layout::get(w.context(), axes)});
}

void enumerateDot(const TacticInput &in, llvm::SmallVectorImpl<Schedule> &out) {
  std::string why;
  const ConvProblem p = *convProblem(*in.form.anchor, why);
  for (int64_t nr : {4, 3, 2, 1})
    if (p.filters % nr == 0) {
      const int64_t most = std::min<int64_t>(16, (int64_t(in.level.simdRegisters) - 6) / nr);
      const int64_t width = std::max<int64_t>(1, p.outWidth.upper());
      const int64_t mr =
          llvm::divideCeil(width, llvm::divideCeil(width, std::max<int64_t>(1, most)));
      out.push_back({"conv_dot", {{"mr", mr}, {"nr", nr}}});
      return;
    }
}

/// Whole vectors of taps at the rate of unaligned loads (half of the peak), and some eight
/// instructions to add the lanes of each output.
double costDot(const TacticInput &in, const Schedule &) {
  std::string why;
  const ConvProblem p = *convProblem(*in.form.anchor, why);
  const int64_t width = widthOf(in);
  const double outputs = double((p.batch * p.outHeight * p.outWidth).upper()) * double(p.filters);
  const double vectors =
      double(p.kernelH) * double(llvm::divideCeil(p.kernelW * p.channels, width)) + 4;
  return 2 * outputs * vectors * double(width) / (in.level.peakGflops * 0.45e3) +
         double(workOf(*in.form.group).bytes) / (in.level.bandwidthGBs * 1e3) * 0.2;
}

void packDot(const TacticInput &in, const Schedule &, llvm::SmallVectorImpl<Packing> &out) {
  const Value *source = in.form.anchorInputs[1].inputs[0].source;
  const Type w = source->type();
  llvm::SmallVector<LayoutAxis, 6> axes;
  axes.push_back({0, 0, false, Dim(), 0});
  for (unsigned d = 2; d < w.rank(); ++d)
    axes.push_back({int(d), 0, false, Dim(), 0});
  axes.push_back({1, 0, false, Dim(), 0});
  out.push_back({source->index(), Layout::get(w.context(), axes)});
}

void enumerateDepthwise(const TacticInput &in, llvm::SmallVectorImpl<Schedule> &out) {
  std::string why;
  const ConvProblem p = *convProblem(*in.form.anchor, why);
  const int64_t most = std::min<int64_t>(8, int64_t(in.level.simdRegisters) - p.kernelW - 2);
  const int64_t width = std::max<int64_t>(1, p.outWidth.upper());
  out.push_back(
      {"depthwise",
       {{"mr", llvm::divideCeil(width, llvm::divideCeil(width, std::max<int64_t>(1, most)))}}});
}

double costDepthwise(const TacticInput &in, const Schedule &) {
  const Work w = workOf(*in.form.group);
  return std::max(w.flops / (in.level.peakGflops * 0.25e3),
                  double(w.bytes) / (in.level.bandwidthGBs * 1e3));
}

void packDepthwise(const TacticInput &in, const Schedule &, llvm::SmallVectorImpl<Packing> &out) {
  const Value *source = in.form.anchorInputs[1].inputs[0].source;
  const Type w = source->type();
  const int64_t width = widthOf(in);
  llvm::SmallVector<LayoutAxis, 6> axes;
  axes.push_back({0, width, false, Dim(), 0});
  axes.push_back({1, 0, false, Dim(), 0});
  for (unsigned d = 2; d < w.rank(); ++d)
    axes.push_back({int(d), 0, false, Dim(), 0});
  axes.push_back({0, width, true, Dim(), 0});
  out.push_back({source->index(), Layout::get(w.context(), axes)});
}

/// The kernel that a schedule runs, which is also its header in runtime/cpu/.
std::string kernelOf(const Schedule &s) { return s.tactic == "conv_i8" ? "conv" : s.tactic; }
bool isDepthwise(const Schedule &s) { return s.tactic == "depthwise"; }
bool isDot(const Schedule &s) { return s.tactic == "conv_dot"; }

/// Whether tiles of pixels are the outer loop: where one block of weights does not stay in the
/// first cache anyway but all of them do in the second, the image is then read and written once.
bool pixelsOuter(const ConvProblem &p, const Schedule &s) {
  const int64_t depth = 4 * p.channels * p.kernelH * p.kernelW;
  return depth * *s.get("nr") > (24 << 10) && depth * p.filters <= (512 << 10);
}

/// What the kernels share: the window, the views, the call.
void emitWindow(const TacticInput &in, const Schedule &s, StepWriter &out) {
  const bool depthwise = isDepthwise(s);
  const GroupForm &form = in.form;
  const Operation &op = *form.anchor;
  std::string why;
  ConvProblem p = *convProblem(op, why);
  const ScalarProgram &xProgram = form.anchorInputs[0];
  const Element sums = accumulatorOf(op.result()->type().element());
  const unsigned tensor = *prologueTensor(xProgram, 1, sums, why);
  const auto rank = unsigned(xProgram.space.size());
  const Strides x = inPlane(stridesOf(xProgram.inputs[tensor], rank), p);

  // A 1x1 convolution walks the plane as one long row where every tensor allows it.
  bool flat = p.isPointwise() && !depthwise && mergesPlane(x, p.inWidth) && !form.body.usesIndex();
  for (const OutputForm &o : form.outputs)
    flat &= mergesPlane(inPlane(stridesOf(o, rank), p), p.outWidth);
  for (const Access &a : form.body.inputs)
    flat &= mergesPlane(inPlane(stridesOf(a, rank), p), p.outWidth);
  if (flat && p.spatialRank == 2) {
    p.inWidth = p.outWidth = p.outHeight * p.outWidth;
    p.inHeight = p.outHeight = p.outWidth.node()->context->dim(1);
  }

  out.include("cpu/" + kernelOf(s) + ".h");
  StepWriter::Config cfg(out, "config",
                         depthwise ? "cpu::depthwise_defaults" : "cpu::conv_defaults");
  cfg.extent("batch", p.batch).extent("out_h", p.outHeight).extent("out_w", p.outWidth);
  cfg.extent("in_h", p.inHeight).extent("in_w", p.inWidth);
  if (depthwise) {
    cfg.extent("channels", p.groups).extent("multiplier", p.filters);
  } else {
    cfg.extent("groups", p.groups).extent("filters", p.filters).extent("channels", p.channels);
  }
  writeWindow(cfg, p);
  for (auto &[key, value] : s.params)
    cfg.number(key, value);
  if (!xProgram.isPlainRead() || hasZeroPoint(form) ||
      (!depthwise && !isDot(s) && pixelsOuter(p, s)))
    cfg.flag("filters_outer", false); // what a prologue made is kept for all filters
  // Dot products read taps and channels as one run of memory.
  if (isDot(s) &&
      !(x.strides[3].isConstant(p.channels) && (p.channels == 1 || x.strides[1].isConstant(1))))
    cfg.flag("pack_input", true);
  const Element e = accumulatorOf(op.result()->type().element());
  if (!depthwise && !isDot(s) && *s.get("nr") % widthOf(in) != 0)
    cfg.type("lanes", "scalar_lanes");
  else if (e == Element::F64)
    cfg.type("lanes", lanesType(widthOf(in)));
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
  c.line("cpu::" + kernelOf(s) + "(" + config + ", x, w, outs, ins, " + body + ", *f.workers" +
         prologue + ");");
}

} // namespace

const Tactic kConv = {"conv",    "register-blocked direct convolution",
                      matchConv, enumerateConv,
                      costConv,  packConv,
                      nullptr,   emitWindow};
const Tactic kConvInt8 = {"conv_i8", "convolution of 8-bit integers with exact 32-bit sums",
                          matchInt8, enumerateInt8,
                          costConv,  packConv,
                          nullptr,   emitWindow};
const Tactic kConvDot = {"conv_dot", "convolution with few filters, lanes along the taps",
                         matchDot,   enumerateDot,
                         costDot,    packDot,
                         nullptr,    emitWindow};
const Tactic kDepthwise = {"depthwise",    "depthwise convolution, lanes along channels",
                           matchDepthwise, enumerateDepthwise,
                           costDepthwise,  packDepthwise,
                           nullptr,        emitWindow};

} // namespace tenon::cpu
