// Implements what the tactics for sums of 8-bit integers share.
#include "codegen/cpu/ByteContraction.h"
#include "codegen/core/Reasons.h"

#include "codegen/AnchorForms.h"
#include "codegen/Packing.h"
#include "codegen/cpu/Operands.h"
#include "codegen/cpu/Prologue.h"
#include "codegen/cpu/Window.h"

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

Strides ByteContraction::plane(const Strides &s) const {
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

llvm::SmallVector<int, 6> ByteContraction::places() const {
  if (matrix)
    return {3, 1};
  auto p = planePlaces(conv);
  if (upright)
    std::swap(p[p.size() - 2], p[p.size() - 1]);
  return p;
}

llvm::Optional<ByteContraction> byteContraction(const Operation &op, std::string &why) {
  ByteContraction q;
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

llvm::Optional<ByteContraction> matchByteContraction(const TacticInput &in, std::string &why) {
  const GroupForm &f = in.form;
  if (!f.anchor || !f.anchor->isAny(Op::Conv, Op::MatMul)) {
    why = "no contraction";
    return llvm::None;
  }
  if (!matchInt8Operands(f, why) || !zeroPoint(f, why))
    return llvm::None;
  if (bitWidth(f.anchor->operand(0)->type().element()) != 8) {
    why = "operands of 16 bits";
    return llvm::None;
  }
  if (f.anchor->operand(1)->type().element() != Element::I8) {
    why = "unsigned weights";
    return llvm::None;
  }
  return byteContraction(*f.anchor, why);
}

bool readsAlongLine(const TacticInput &in, const ByteContraction &q, std::string &why) {
  const GroupForm &f = in.form;
  const unsigned rank = f.anchor->result()->type().rank();
  const bool oneRow = q.conv.outHeight.isConstant(1);
  bool line = !f.body.usesIndex();
  for (const OutputForm &o : f.outputs)
    line &= oneRow || mergesPlane(q.plane(stridesOf(o, rank)), q.conv.outWidth);
  for (const Access &a : f.body.inputs)
    line &= !a.bounded && (oneRow || mergesPlane(q.plane(stridesOf(a, rank)), q.conv.outWidth));
  if (!line)
    why = "height and width of a result are not one dimension in memory";
  return line;
}

Strides inputStrides(const GroupForm &form, const ByteContraction &q) {
  const ScalarProgram &x = form.anchorInputs[0];
  return q.plane(stridesOf(x.inputs[0], unsigned(x.space.size())));
}

bool readsBytes(const TacticInput &in, const ByteContraction &q, const Schedule &s) {
  const ConvProblem &p = q.conv;
  return *s.get("mr") == 1 && p.kernelH == 1 && p.kernelW == 1 && p.channels % 4 == 0 &&
         p.padTop == 0 && p.padLeft == 0 && inputStrides(in.form, q).strides[1].isConstant(1);
}

bool readsInPlace(const GroupForm &form, const ByteContraction &q) {
  const ConvProblem &p = q.conv;
  return p.kernelH == 1 && p.kernelW == 1 &&
         (p.channels == 1 || inputStrides(form, q).strides[1].isConstant(1));
}

void addWeightBits(const TacticInput &in, int64_t lanes, Schedule &schedule) {
  std::string why;
  const ConvProblem p = byteContraction(*in.form.anchor, why)->conv;
  const int64_t depth = p.channels * p.kernelH * p.kernelW;
  if (!in.packWeights || depth > INT32_MAX / (255 * 128))
    return;
  const Tensor &w = **constantOperand(in.form, 1)->def()->find("value")->get<Literal>();
  int64_t low = 0, high = 0;
  for (int64_t i = 0; i < w.size(); ++i) {
    low = std::min(low, w.intAt(i));
    high = std::max(high, w.intAt(i));
  }
  int64_t best = 8, smallest = depth;
  for (int64_t bits : {4, 2}) {
    const int64_t half = int64_t(1) << (bits - 1);
    const int64_t bytes = WeightFields{bits, lanes}.rowBytes(depth);
    if (low >= -half && high < half && bytes < smallest) {
      best = bits;
      smallest = bytes;
    }
  }
  if (best < 8)
    schedule.params.push_back({"weight_bits", best});
}

bool joinsFilters(const TacticInput &in) {
  if (!in.joinFilters)
    return false;
  std::string why;
  const ByteContraction q = *byteContraction(*in.form.anchor, why);
  const Tensor &w = **constantOperand(in.form, 1)->def()->find("value")->get<Literal>();
  const bool isSigned = in.form.anchor->operand(0)->type().element() == Element::I8;
  const int64_t low = (isSigned ? -128 : 0) - *zeroPoint(in.form, why), high = low + 255;
  const int64_t filters = q.conv.filters, depth = w.size() / filters;
  // Filters are the last dimension of a matrix that is not transposed, else the first.
  const bool last = q.matrix && !q.transB;
  for (int64_t k = 0; k < filters; ++k) {
    int64_t least = 0, most = 0;
    for (int64_t i = 0; i < depth; ++i) {
      const int64_t weight = w.intAt(last ? i * filters + k : k * depth + i);
      if (weight == -128)
        return false;
      least += std::min(weight * low, weight * high);
      most += std::max(weight * low, weight * high);
    }
    if (least <= -(1 << 23) || most >= 1 << 23)
      return false;
  }
  return true;
}

std::string storedWeights(const Schedule &schedule, int64_t lanes) {
  if (const auto pairs = schedule.get("joined"))
    return JoinedFilters{*pairs}.word();
  const auto bits = schedule.get("weight_bits");
  return bits ? WeightFields{*bits, lanes}.word() : "";
}

void packFilters(const TacticInput &in, std::string stored, llvm::SmallVectorImpl<Packing> &out) {
  std::string why;
  const ByteContraction q = *byteContraction(*in.form.anchor, why);
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
  out.push_back({source->index(), Layout::get(w.context(), axes), std::move(stored)});
}

void writeExtents(StepWriter::Config &cfg, const ByteContraction &q, bool depthwise) {
  const ConvProblem &p = q.conv;
  cfg.extent("batch", p.batch).extent("out_h", p.outHeight).extent("out_w", p.outWidth);
  cfg.extent("in_h", p.inHeight).extent("in_w", p.inWidth);
  if (depthwise)
    cfg.extent("channels", p.groups);
  else
    cfg.extent("filters", p.filters).extent("channels", p.channels);
  writeWindow(cfg, p);
}

void writeOperands(StepWriter &out, const GroupForm &form, const ByteContraction &q) {
  auto plane = [&](const Strides &strides) { return q.plane(strides); };
  const Strides x = inputStrides(form, q);
  const Dim zero = x.offset.node()->context->dim(0);
  SourceWriter &c = out.code();
  c.line("const auto x = " + out.view(form.anchorInputs[0].inputs[0].source, x) + ";");
  c.line("const auto *w = " + out.pointer(form.anchorInputs[1].inputs[0].source, zero) + ";");
  c.line("const auto outs = " + out.outputs(form, plane) + ";");
  c.line("const auto ins = " + inputsIn(out, form.body, plane, q.places()) + ";");
}

double instructionTime(const TargetLevel &level, double instructions) {
  return instructions / (level.peakGflops * 1e3 / 2); // the peak is that of fused multiply-adds
}

} // namespace tenon::cpu
