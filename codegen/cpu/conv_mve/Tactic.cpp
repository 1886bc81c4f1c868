// Defines the tactics `conv_quads` and `depthwise_quads`: sums of 8-bit integers on cores with MVE,
// 16 products an instruction, and their bodies on four values at once (runtime/cpu/conv_quads.h).
#include "codegen/core/TacticOf.h"
#include "codegen/cpu/shared/ReadOrder.h"

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

Result<ByteProblem> quadsProblem(const GroupQuery &in) {
  if (!in.level.mve)
    return Refusal{"no vector instructions for integers", ""};
  auto p = plainByteProblem(in);
  if (!p)
    return p;
  const GroupForm &f = in.form;
  if (f.anchor->operand(0)->type().element() != Element::I8)
    return Refusal{"unsigned inputs", ""};
  if (llvm::any_of(f.body.inputs, [](const Access &a) { return a.bounded; }) || f.body.usesIndex())
    return Refusal{"a body that reads beyond its inputs, or its position", ""};
  return p;
}

/// What a kernel works in: words for sums, and bytes of a patch.
struct Room {
  int64_t words, patch;
  int64_t bytes() const { return 4 * words + patch; }
  bool isOnStack() const { return bytes() <= kMostStackBytes; }
  int64_t scratch() const { return isOnStack() ? 0 : bytes(); }

private:
  /// So much is taken from the stack, where bodies and borders need some, too.
  static constexpr int64_t kMostStackBytes = 256;
};

/// Writes the configuration, what the kernel works in, and the call.
void emitCall(const ByteProblem &p, llvm::StringRef kernel, const KeyValues &schedule,
              bool depthwise, const Room &room, StepWriter &out) {
  const GroupForm &form = p.in.form;
  out.include("cpu/conv_quads.h");
  StepWriter::Config cfg(out, "config", "cpu::conv_defaults");
  writeExtents(cfg, p.q, depthwise);
  if (!depthwise)
    cfg.flag("vector_body", hasFunctions(form));
  for (auto &[key, value] : schedule)
    cfg.number(key, value);
  const std::string config = cfg.finish();

  const std::string body = out.body(form.body, {Element::I32});
  writeOperands(out, p);
  SourceWriter &c = out.code();
  const std::string words = std::to_string(room.words);
  if (room.isOnStack()) {
    c.line(room.words ? "int32_t sums[" + words + "];" : "int32_t *const sums = nullptr;");
    if (room.patch)
      c.line("alignas(16) int8_t patch[" + std::to_string(room.patch) + "];");
  } else {
    c.line("int32_t *const sums = " + out.scratchPointer("int32_t") + ";");
    if (room.patch)
      c.line("int8_t *const patch = reinterpret_cast<int8_t *>(sums + " + words + ");");
  }
  const std::string places = depthwise    ? ", sums"
                             : room.patch ? ", patch, sums"
                                          : ", nullptr, sums";
  c.line("cpu::" + kernel.str() + "(" + config + ", x, w, " + std::to_string(*p.zero) + places +
         ", outs, ins, " + body + ");");
}

struct ConvQuads {
  static constexpr llvm::StringLiteral
      id = "conv_quads",
      summary = "sums of 8-bit integers, 16 products an instruction (MVE)";
  using Problem = ByteProblem;
  using Schedule = FieldSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    auto p = quadsProblem(in);
    if (!p)
      return p;
    return hasOneGroup(*p).andThen([&] { return std::move(p); });
  }

  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    out.push_back({fewestBits(p, 16)});
  }
  static Result<> legal(const Problem &p, const Schedule &s) { return fitsBits<ConvQuads>(p, s); }
  static int64_t weightBits(const Schedule &s) { return s.weightBits; }

  static double microseconds(const Problem &p, const Schedule &) {
    const double vectors = double(llvm::divideCeil(p.depth(), 16));
    const double fours = double(llvm::divideCeil(p.conv().filters, 4));
    const double patch = p.conv().isPointwise() ? 0 : 4 * vectors + 10 * double(p.conv().kernelH);
    const double body = hasFunctions(p.in.form) ? 28 : 140;
    return instructionTime(p.in.level,
                           double(p.pixels()) * (fours * (10 * vectors + body) + patch) +
                               2 * vectors * double(p.conv().filters));
  }

  static void pack(const Problem &p, const Schedule &s, llvm::SmallVectorImpl<Packing> &out) {
    packFilters(p, storedWeights(s.weightBits, 16), out);
  }
  static int64_t scratch(const Problem &p, const Schedule &) { return roomOf(p).scratch(); }
  static llvm::Optional<Overlap> overlap(const Problem &p, const Schedule &) {
    return overlapByTiles(p, 1, /*copied=*/!p.readsInPlace());
  }

  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    emitCall(p, id, printedOf(s), /*depthwise=*/false, roomOf(p), out);
  }

private:
  /// As keeps_sums in runtime/cpu/conv_quads.h: for more than one pixel.
  static Room roomOf(const Problem &p) {
    return {p.pixels() != 1 ? p.conv().filters : 0,
            p.readsInPlace() ? 0 : int64_t(llvm::alignTo(p.depth(), 4))};
  }
};

struct DepthwiseQuads {
  static constexpr llvm::StringLiteral id = "depthwise_quads",
                                       summary = "depthwise convolution of 8-bit integers, four "
                                                 "channels at once (MVE)";
  using Problem = ByteProblem;
  using Schedule = NoSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    auto p = quadsProblem(in);
    if (!p)
      return p;
    if (!p->q.isDepthwise() || p->conv().groups % 4 != 0)
      return Refusal{"not depthwise with one filter a channel, four channels at a time", ""};
    if (!p->x.strides[1].isConstant(1) || !p->x.strides[3].isConstant() || !hasFunctions(in.form))
      return Refusal{"channels apart in memory, or a body of more than 32-bit integer arithmetic",
                     ""};
    return p;
  }

  static double microseconds(const Problem &p, const Schedule &) {
    const double fours = double(llvm::divideCeil(p.conv().groups, 4));
    return instructionTime(p.in.level, double(p.pixels()) * fours *
                                           (6 * double(p.conv().kernelH * p.conv().kernelW) + 35));
  }

  /// Four channels together: [channels / 4][kernel_h][kernel_w][4].
  static void pack(const Problem &p, const Schedule &, llvm::SmallVectorImpl<Packing> &out) {
    const Value *source = p.weightsOperand();
    const Type w = source->type();
    llvm::SmallVector<LayoutAxis, 6> axes;
    axes.push_back({0, 4, false, Dim(), 0});
    for (unsigned d = 1; d < w.rank(); ++d)
      axes.push_back({int(d), 0, false, Dim(), 0});
    axes.push_back({0, 4, true, Dim(), 0});
    out.push_back({source->index(), Layout::get(w.context(), axes)});
  }
  static int64_t scratch(const Problem &p, const Schedule &) { return roomOf(p).scratch(); }
  static llvm::Optional<Overlap> overlap(const Problem &p, const Schedule &) {
    return overlapByTiles(p, 1, /*copied=*/false);
  }

  static void emit(const Problem &p, const Schedule &, StepWriter &out) {
    emitCall(p, id, {}, /*depthwise=*/true, roomOf(p), out);
  }

private:
  static Room roomOf(const Problem &p) { return {p.conv().groups, 0}; }
};

} // namespace

const Tactic &kConvQuads = kTacticOf<ConvQuads>;
const Tactic &kDepthwiseQuads = kTacticOf<DepthwiseQuads>;

} // namespace tenon::cpu
