// Defines the tactics `conv_pairs` and `depthwise_pairs`: sums of 8-bit integers on cores that
// multiply two pairs of 16-bit integers at once (runtime/cpu/conv_pairs.h, depthwise_pairs.h).
// conv_pairs takes matrix products, too, as convolutions of one row.
#include "codegen/cpu/Pairs.h"

#include "codegen/cpu/Operands.h"
#include "codegen/cpu/Prologue.h"
#include "codegen/cpu/Tactics.h"
#include "codegen/cpu/Window.h"

#include "llvm/Support/MathExtras.h"

namespace tenon::cpu {
namespace {

void turn(ConvProblem &p) {
  std::swap(p.inHeight, p.inWidth);
  std::swap(p.outHeight, p.outWidth);
  std::swap(p.kernelH, p.kernelW);
  std::swap(p.strideH, p.strideW);
  std::swap(p.dilationH, p.dilationW);
  std::swap(p.padTop, p.padLeft);
}

} // namespace

Strides PairsProblem::plane(const Strides &s) const {
  Strides r;
  r.offset = s.offset;
  if (matrix) { // (m, n) → (0, n, 0, m)
    const Dim zero = s.offset.node()->context->dim(0);
    r.strides = {zero, s.strides[1], zero, s.strides[0]};
    return r;
  }
  r = inPlane(s, conv);
  if (upright)
    std::swap(r.strides[2], r.strides[3]);
  return r;
}

llvm::SmallVector<int, 6> PairsProblem::places() const {
  if (matrix)
    return {3, 1};
  auto p = planePlaces(conv);
  if (upright)
    std::swap(p[p.size() - 2], p[p.size() - 1]);
  return p;
}

llvm::Optional<PairsProblem> pairsProblem(const Operation &op, std::string &why) {
  PairsProblem q;
  if (op.is(Op::MatMul)) {
    const Type a = op.operand(0)->type(), b = op.operand(1)->type();
    if (a.rank() != 2 || b.rank() != 2 || op.boolAttr("trans_a") || !b.hasStaticShape()) {
      why = "a product of other than two matrices";
      return llvm::None;
    }
    q.matrix = true;
    q.transB = op.boolAttr("trans_b");
    ConvProblem &p = q.conv;
    Context &c = a.context();
    p.batch = p.inHeight = p.outHeight = c.dim(1);
    p.inWidth = p.outWidth = a.dim(0);
    p.channels = b.dim(q.transB ? 1 : 0).constant();
    p.filters = b.dim(q.transB ? 0 : 1).constant();
    return q;
  }
  auto p = convProblem(op, why);
  if (!p)
    return llvm::None;
  q.conv = *p;
  q.upright = p->spatialRank == 2 && p->kernelW == 1 && p->inWidth.isConstant(1) &&
              p->padLeft == 0 && !p->outHeight.isConstant(1);
  if (q.upright)
    turn(q.conv);
  return q;
}

llvm::Optional<int64_t> zeroPoint(const GroupForm &form, std::string &why) {
  if (form.anchorInputs.size() < 3)
    return 0;
  Value *v = constantOperand(form, 2);
  if (!v) {
    why = "a zero point known only at run time";
    return llvm::None;
  }
  return (*v->def()->find("value")->get<Literal>())->intAt(0);
}

namespace {

/// What both kernels ask for: constant int8 weights, and results that lie along one line of pixels.
llvm::Optional<PairsProblem> matchPairs(const TacticInput &in, std::string &why) {
  if (!in.level.dsp) {
    why = "no instructions for pairs of 16-bit integers";
    return llvm::None;
  }
  const GroupForm &f = in.form;
  if (!f.anchor || !f.anchor->isAny(Op::Conv, Op::MatMul)) {
    why = "no contraction";
    return llvm::None;
  }
  if (!matchInt8Operands(f, why) || !zeroPoint(f, why))
    return llvm::None;
  if (f.anchor->operand(1)->type().element() != Element::I8) {
    why = "unsigned weights";
    return llvm::None;
  }
  auto q = pairsProblem(*f.anchor, why);
  if (!q)
    return llvm::None;
  const unsigned rank = f.anchor->result()->type().rank();
  const bool oneRow = q->conv.outHeight.isConstant(1);
  bool line = !f.body.usesIndex();
  for (const OutputForm &o : f.outputs)
    line &= oneRow || mergesPlane(q->plane(stridesOf(o, rank)), q->conv.outWidth);
  for (const Access &a : f.body.inputs)
    line &= !a.bounded && (oneRow || mergesPlane(q->plane(stridesOf(a, rank)), q->conv.outWidth));
  if (!line) {
    why = "height and width of a result are not one dimension in memory";
    return llvm::None;
  }
  return q;
}

} // namespace

Strides inputStrides(const GroupForm &form, const PairsProblem &q) {
  const ScalarProgram &x = form.anchorInputs[0];
  return q.plane(stridesOf(x.inputs[0], unsigned(x.space.size())));
}

namespace {

bool matchConv(const TacticInput &in, std::string &why) {
  auto q = matchPairs(in, why);
  if (!q)
    return false;
  const ConvProblem &p = q->conv;
  if (p.groups != 1) {
    why = "several groups";
    return false;
  }
  const bool run = p.channels == 1 || inputStrides(in.form, *q).strides[1].isConstant(1);
  if (!(run && p.channels % 4 == 0) && p.channels * p.kernelH * p.kernelW > kStackBytes) {
    why = "a large patch whose bytes must be collected";
    return false;
  }
  return true;
}

bool matchDepthwise(const TacticInput &in, std::string &why) {
  auto q = matchPairs(in, why);
  if (!q)
    return false;
  if (!q->conv.isDepthwise() || q->conv.filters != 1 || q->conv.dilationH != 1 ||
      q->conv.dilationW != 1) {
    why = "not depthwise with one filter a channel, or dilated";
    return false;
  }
  return true;
}

int64_t pixels(const ConvProblem &p) { return (p.batch * p.outHeight * p.outWidth).upper(); }

void enumerateConv(const TacticInput &in, llvm::SmallVectorImpl<Schedule> &out) {
  std::string why;
  const ConvProblem p = pairsProblem(*in.form.anchor, why)->conv;
  const int64_t plane = (p.outHeight * p.outWidth).upper();
  // Weights are widened once for all outputs of a tile, inputs are loaded once for all filters; 14
  // registers hold no more than these.
  int64_t mr = std::min<int64_t>(plane, 4);
  if (plane > 4 && plane % 4 != 0 && plane % 3 == 0)
    mr = 3; // whole tiles need no code for the last few outputs
  out.push_back(
      {"conv_pairs", {{"mr", mr}, {"nr", mr == 1 ? std::min<int64_t>(p.filters, 4) : 1}}});
}

void enumerateDepthwise(const TacticInput &, llvm::SmallVectorImpl<Schedule> &out) {
  out.push_back({"depthwise_pairs", {}});
}

/// Instructions in microseconds: one for two products, and what the multiply-add rate allows else.
double microseconds(const TacticInput &in, double instructions) {
  return instructions / (in.level.peakGflops * 1e3 * 4);
}

double costConv(const TacticInput &in, const Schedule &s) {
  std::string why;
  const ConvProblem p = pairsProblem(*in.form.anchor, why)->conv;
  const double mr = double(*s.get("mr")), nr = double(*s.get("nr"));
  const double depth = double(llvm::alignTo(p.channels * p.kernelH * p.kernelW, 4));
  const double tiles = std::ceil(double(pixels(p)) / mr);
  const double filters = double(p.filters);
  // Four products of each: 2 mr nr multiply-adds, 3 nr for the weights, mr loads.
  const double inner = (2 * mr * nr + 3 * nr + mr) / 4 / nr;
  return microseconds(in, tiles * (filters * (depth * inner + 9 * mr + 4) + mr * depth * 1.5));
}

double costDepthwise(const TacticInput &in, const Schedule &) {
  std::string why;
  const ConvProblem p = pairsProblem(*in.form.anchor, why)->conv;
  const double area = double((p.batch * p.inHeight * p.inWidth).upper());
  const double words = double(p.kernelH * llvm::divideCeil(p.kernelW, 4));
  return microseconds(in, double(p.groups) * (area * 3 + double(pixels(p)) * (5 * words + 9)));
}

void packConv(const TacticInput &in, const Schedule &, llvm::SmallVectorImpl<Packing> &out) {
  std::string why;
  const PairsProblem q = *pairsProblem(*in.form.anchor, why);
  const Value *source = in.form.anchorInputs[1].inputs[0].source;
  const Type w = source->type();
  llvm::SmallVector<LayoutAxis, 6> axes;
  auto axis = [&](int d) { axes.push_back({d, 0, false, Dim(), 0}); };
  if (q.matrix) {
    axis(q.transB ? 0 : 1);
    axis(q.transB ? 1 : 0);
  } else {
    axis(0);
    for (unsigned d = 2; d < w.rank(); ++d)
      axis(int(d));
    axis(1);
  }
  out.push_back({source->index(), Layout::get(w.context(), axes)});
}

/// As reads_bytes in runtime/cpu/conv_pairs.h: no patch at all.
bool readsBytes(const TacticInput &in, const PairsProblem &q, const Schedule &s) {
  const ConvProblem &p = q.conv;
  return *s.get("mr") == 1 && p.kernelH == 1 && p.kernelW == 1 && p.channels % 4 == 0 &&
         p.padTop == 0 && p.padLeft == 0 && inputStrides(in.form, q).strides[1].isConstant(1);
}

int64_t patchBytes(const TacticInput &in, const PairsProblem &q, const Schedule &s) {
  const ConvProblem &p = q.conv;
  if (readsBytes(in, q, s))
    return 0;
  return *s.get("mr") * 2 * int64_t(llvm::alignTo(p.channels * p.kernelH * p.kernelW, 4));
}

/// As plane_bytes in runtime/cpu/depthwise_pairs.h.
int64_t planeBytes(const ConvProblem &p) {
  const bool two = p.kernelW == 3 && p.strideW == 1;
  const int64_t width = (p.outWidth.upper() - 1 + (two ? 1 : 0)) * p.strideW +
                        4 * int64_t(llvm::divideCeil(p.kernelW, 4));
  return width * ((p.outHeight.upper() - 1) * p.strideH + p.kernelH);
}

int64_t inArena(int64_t bytes) { return bytes <= kStackBytes ? 0 : bytes; }

int64_t scratchConv(const TacticInput &in, const Schedule &s) {
  std::string why;
  return inArena(patchBytes(in, *pairsProblem(*in.form.anchor, why), s));
}

int64_t scratchDepthwise(const TacticInput &in, const Schedule &) {
  std::string why;
  return inArena(planeBytes(pairsProblem(*in.form.anchor, why)->conv));
}

void emit(const TacticInput &in, const Schedule &s, StepWriter &out) {
  const GroupForm &form = in.form;
  std::string why;
  const PairsProblem q = *pairsProblem(*form.anchor, why);
  const ConvProblem &p = q.conv;
  const bool depthwise = s.tactic == "depthwise_pairs";

  out.include("cpu/" + s.tactic + ".h");
  StepWriter::Config cfg(out, "config", "cpu::conv_defaults");
  cfg.extent("batch", p.batch).extent("out_h", p.outHeight).extent("out_w", p.outWidth);
  cfg.extent("in_h", p.inHeight).extent("in_w", p.inWidth);
  if (depthwise)
    cfg.extent("channels", p.groups);
  else
    cfg.extent("filters", p.filters).extent("channels", p.channels);
  cfg.extent("kernel_h", p.kernelH).extent("kernel_w", p.kernelW);
  cfg.extent("stride_h", p.strideH).extent("stride_w", p.strideW);
  cfg.extent("dilation_h", p.dilationH).extent("dilation_w", p.dilationW);
  cfg.extent("pad_top", p.padTop).extent("pad_left", p.padLeft);
  for (auto &[key, value] : s.params)
    cfg.number(key, value);
  const std::string config = cfg.finish();

  const std::string body = out.body(form.body, {Element::I32});
  auto plane = [&](const Strides &strides) { return q.plane(strides); };
  const Strides x = inputStrides(form, q);
  const Dim zero = x.offset.node()->context->dim(0);
  const std::string element =
      depthwise ? cppElement(form.anchor->operand(0)->type().element()).str() : "uint32_t";
  const int64_t bytes = depthwise ? planeBytes(p) : patchBytes(in, q, s);
  SourceWriter &c = out.code();
  c.line("const auto x = " + out.view(form.anchorInputs[0].inputs[0].source, x) + ";");
  c.line("const auto *w = " + out.pointer(form.anchorInputs[1].inputs[0].source, zero) + ";");
  c.line("const auto outs = " + out.outputs(form, plane) + ";");
  c.line("const auto ins = " + inputsIn(out, form.body, plane, q.places()) + ";");
  std::string room = out.scratchPointer(element);
  if (bytes == 0) {
    room = "nullptr";
  } else if (inArena(bytes) == 0) {
    room = depthwise ? "plane" : "patches";
    c.line("alignas(8) " + element + " " + room + "[" +
           std::to_string(depthwise ? bytes : bytes / 4) + "];");
  }
  c.line("cpu::" + s.tactic + "(" + config + ", x, w, " + std::to_string(*zeroPoint(form, why)) +
         ", " + room + ", outs, ins, " + body + ");");
}

} // namespace

const Tactic kConvPairs = {
    "conv_pairs", "sums of 8-bit integers, two products an instruction (DSP extension)",
    matchConv,    enumerateConv,
    costConv,     packConv,
    scratchConv,  emit};
const Tactic kDepthwisePairs = {
    "depthwise_pairs", "depthwise convolution of 8-bit integers, by pairs (DSP extension)",
    matchDepthwise,    enumerateDepthwise,
    costDepthwise,     packConv,
    scratchDepthwise,  emit};

} // namespace tenon::cpu
