// Defines the tactics `conv_quads` and `depthwise_quads`: sums of 8-bit integers on cores with MVE,
// 16 products an instruction, and their bodies on four values at once (runtime/cpu/conv_quads.h).
#include "codegen/cpu/ByteContraction.h"
#include "codegen/cpu/Tactics.h"

#include "llvm/Support/MathExtras.h"

namespace tenon::cpu {
namespace {

/// Whether all values that a node has are known and shifts by a part of a word.
bool isShiftCount(const GroupForm &form, const ScalarNode &n) {
  auto fits = [](int64_t count) { return count >= 0 && count < 32; };
  if (n.kind == ScalarNode::Function) {
    const Attribute *value = n.op->is(Op::Const) ? n.op->find("value") : nullptr;
    return value && value->get<int64_t>() && fits(*value->get<int64_t>());
  }
  if (n.kind != ScalarNode::Input)
    return false;
  Value *v = form.body.inputs[n.index].source;
  if (v->argumentOf() == &form.group->region())
    v = form.group->operand(v->index());
  if (!v->def() || !v->def()->is(Op::Constant))
    return false;
  const Tensor &counts = **v->def()->find("value")->get<Literal>();
  for (int64_t i = 0; i < counts.size(); ++i)
    if (!fits(counts.intAt(i)))
      return false;
  return true;
}

/// Whether runtime/common/quads.h has every function of the body.
bool hasFunctions(const GroupForm &form) {
  for (const ScalarNode &n : form.body.nodes) {
    if (!isInteger(n.element) || bitWidth(n.element) < 8 || bitWidth(n.element) > 32 ||
        n.element == Element::U32)
      return false;
    if (n.kind != ScalarNode::Function || n.op->isAny(Op::Const, Op::Cast, Op::Lookup))
      continue;
    const bool shifts = n.op->isAny(Op::ShiftLeft, Op::ShiftRight, Op::RoundShift);
    if (n.element != Element::I32 || !(shifts || n.op->isAny(Op::Add, Op::Sub, Op::Mul, Op::MulHigh,
                                                             Op::Min, Op::Max, Op::Clamp)))
      return false;
    if (shifts && !isShiftCount(form, form.body.nodes[n.operands[1]]))
      return false;
  }
  return true;
}

llvm::Optional<ByteContraction> matchQuads(const TacticInput &in, std::string &why) {
  if (!in.level.mve) {
    why = "no vector instructions for integers";
    return llvm::None;
  }
  auto q = matchByteContraction(in, why);
  if (!q)
    return llvm::None;
  const GroupForm &f = in.form;
  if (f.anchor->operand(0)->type().element() != Element::I8) {
    why = "unsigned inputs";
    return llvm::None;
  }
  if (llvm::any_of(f.body.inputs, [](const Access &a) { return a.bounded; }) ||
      f.body.usesIndex()) {
    why = "a body that reads beyond its inputs, or its position";
    return llvm::None;
  }
  return q;
}

bool matchConv(const TacticInput &in, std::string &why) {
  auto q = matchQuads(in, why);
  if (q && q->conv.groups != 1) {
    why = "several groups";
    return false;
  }
  return q.hasValue();
}

bool matchDepthwise(const TacticInput &in, std::string &why) {
  auto q = matchQuads(in, why);
  if (q && (!q->isDepthwise() || q->conv.groups % 4 != 0)) {
    why = "not depthwise with one filter a channel, four channels at a time";
    return false;
  }
  if (q && (!inputStrides(in.form, *q).strides[1].isConstant(1) ||
            !inputStrides(in.form, *q).strides[3].isConstant() || !hasFunctions(in.form))) {
    why = "channels apart in memory, or a body of more than 32-bit integer arithmetic";
    return false;
  }
  return q.hasValue();
}

void enumerateConv(const TacticInput &in, llvm::SmallVectorImpl<Schedule> &out) {
  out.push_back({"conv_quads", {}});
  addWeightBits(in, 16, out.back());
}
void enumerateDepthwise(const TacticInput &, llvm::SmallVectorImpl<Schedule> &out) {
  out.push_back({"depthwise_quads", {}});
}

int64_t depthOf(const ConvProblem &p) { return p.channels * p.kernelH * p.kernelW; }
double pixels(const ConvProblem &p) { return double((p.batch * p.outHeight * p.outWidth).upper()); }

double costConv(const TacticInput &in, const Schedule &) {
  std::string why;
  const ConvProblem p = byteContraction(*in.form.anchor, why)->conv;
  const double vectors = double(llvm::divideCeil(depthOf(p), 16));
  const double fours = double(llvm::divideCeil(p.filters, 4));
  const double patch = p.isPointwise() ? 0 : 4 * vectors + 10 * double(p.kernelH);
  const double body = hasFunctions(in.form) ? 28 : 140;
  return instructionTime(in.level, pixels(p) * (fours * (10 * vectors + body) + patch) +
                                       2 * vectors * double(p.filters));
}

double costDepthwise(const TacticInput &in, const Schedule &) {
  std::string why;
  const ConvProblem p = byteContraction(*in.form.anchor, why)->conv;
  const double fours = double(llvm::divideCeil(p.groups, 4));
  return instructionTime(in.level, pixels(p) * fours * (6 * double(p.kernelH * p.kernelW) + 35));
}

/// Four channels together: [channels / 4][kernel_h][kernel_w][4].
void packDepthwise(const TacticInput &in, const Schedule &, llvm::SmallVectorImpl<Packing> &out) {
  const Value *source = in.form.anchorInputs[1].inputs[0].source;
  const Type w = source->type();
  llvm::SmallVector<LayoutAxis, 6> axes;
  axes.push_back({0, 4, false, Dim(), 0});
  for (unsigned d = 1; d < w.rank(); ++d)
    axes.push_back({int(d), 0, false, Dim(), 0});
  axes.push_back({0, 4, true, Dim(), 0});
  out.push_back({source->index(), Layout::get(w.context(), axes)});
}

int64_t patchBytes(const GroupForm &form, const ByteContraction &q, bool depthwise) {
  return depthwise || readsInPlace(form, q) ? 0 : int64_t(llvm::alignTo(depthOf(q.conv), 4));
}
/// As keeps_sums in runtime/cpu/conv_quads.h.
bool keepsSums(const ConvProblem &p) { return pixels(p) != 1; }
int64_t roomBytes(const GroupForm &form, const ByteContraction &q, bool depthwise) {
  const int64_t sums = depthwise ? q.conv.groups : keepsSums(q.conv) ? q.conv.filters : 0;
  return 4 * sums + patchBytes(form, q, depthwise);
}
/// Of which so much is taken from the stack, where bodies and borders need some, too.
constexpr int64_t kMostStackBytes = 256;

int64_t scratch(const TacticInput &in, const Schedule &s) {
  std::string why;
  const int64_t bytes =
      roomBytes(in.form, *byteContraction(*in.form.anchor, why), s.tactic == "depthwise_quads");
  return bytes <= kMostStackBytes ? 0 : bytes;
}

void emit(const TacticInput &in, const Schedule &s, StepWriter &out) {
  const GroupForm &form = in.form;
  std::string why;
  const ByteContraction q = *byteContraction(*form.anchor, why);
  const ConvProblem &p = q.conv;
  const bool depthwise = s.tactic == "depthwise_quads";

  out.include("cpu/conv_quads.h");
  StepWriter::Config cfg(out, "config", "cpu::conv_defaults");
  writeExtents(cfg, q, depthwise);
  if (!depthwise)
    cfg.flag("vector_body", hasFunctions(form));
  for (auto &[key, value] : s.params)
    cfg.number(key, value);
  const std::string config = cfg.finish();

  const std::string body = out.body(form.body, {Element::I32});
  writeOperands(out, form, q);
  SourceWriter &c = out.code();
  const int64_t words = depthwise ? p.groups : keepsSums(p) ? p.filters : 0;
  const int64_t patch = patchBytes(form, q, depthwise);
  if (roomBytes(form, q, depthwise) <= kMostStackBytes) {
    c.line(words ? "int32_t sums[" + std::to_string(words) + "];"
                 : "int32_t *const sums = nullptr;");
    if (patch)
      c.line("alignas(16) int8_t patch[" + std::to_string(patch) + "];");
  } else {
    c.line("int32_t *const sums = " + out.scratchPointer("int32_t") + ";");
    if (patch)
      c.line("int8_t *const patch = reinterpret_cast<int8_t *>(sums + " + std::to_string(words) +
             ");");
  }
  const std::string room = depthwise ? ", sums" : patch ? ", patch, sums" : ", nullptr, sums";
  c.line("cpu::" + s.tactic + "(" + config + ", x, w, " + std::to_string(*zeroPoint(form, why)) +
         room + ", outs, ins, " + body + ");");
}

} // namespace

const Tactic kConvQuads = {"conv_quads", "sums of 8-bit integers, 16 products an instruction (MVE)",
                           matchConv,    enumerateConv,
                           costConv,     packFilters<16>,
                           scratch,      emit};
const Tactic kDepthwiseQuads = {
    "depthwise_quads", "depthwise convolution of 8-bit integers, four channels at once (MVE)",
    matchDepthwise,    enumerateDepthwise,
    costDepthwise,     packDepthwise,
    scratch,           emit};

} // namespace tenon::cpu
