// Implements the reasons for and against Tensor Cores.
#include "codegen/cuda/TensorCores.h"
#include "codegen/cuda/Family.h"

#include "codegen/cuda/shared/Contraction.h"
#include "codegen/schedule/Schedule.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

namespace tenon::cuda {
namespace {

std::string microsecondsText(double us) {
  std::string s;
  llvm::raw_string_ostream(s) << llvm::format("%.3g us", us);
  return s;
}

/// The lowest of the prices, the first of those that are equal.
Price cheapest(const Choices &choices) {
  Price best = choices.front()->price();
  for (const std::unique_ptr<Choice> &c : choices)
    if (const Price its = c->price(); its.rank < best.rank)
      best = its;
  return best;
}

/// What of a contraction's shape leaves the instructions' tiles mostly empty; may be nothing.
std::string emptyTiles(const GroupQuery &in) {
  const auto c = readContraction(in);
  constexpr int64_t kRows = 16; // of the instructions up to sm_89
  if (c && c->isConv && c->conv.isDepthwise())
    return "more channels a group";
  return c && c->rows() < kRows ? "more rows, such as a larger batch gives" : "";
}

/// For a contraction that a tactic for Tensor Cores matches but that another runs.
std::string changeOfShape(const GroupQuery &in, const Tactic &chosen) {
  const std::string shape = emptyTiles(in);
  return shape + (shape.empty() ? "" : ", or ") + "--disable=tactic." + chosen.info.id.str();
}

/// For a contraction that no tactic for Tensor Cores matches.
std::string changeOfModel(const GroupQuery &in) {
  const Operation &op = *in.form.anchor;
  const Element a = op.operand(0)->type().element(), b = op.operand(1)->type().element();
  auto is16 = [](Element e) { return e == Element::F16 || e == Element::BF16; };
  if (!isFloat(a) || !isFloat(b))
    return bitWidth(a) == 8 && bitWidth(b) == 8
               ? "constant signed weights without a zero point"
               : "operands of 8 bits, or the model in floating point with --precision=fp16";
  if ((!is16(a) || !is16(b)) && multipliedAs(in.form).empty()) {
    const std::string shape = emptyTiles(in);
    return std::string("--precision=fp16") + (in.level.sm >= kMmaSm80.firstSm ? " or bf16" : "") +
           (shape.empty() ? "" : ", and " + shape);
  }
  if (in.level.sm < kMmaSm80.firstSm && (a == Element::BF16 || b == Element::BF16))
    return "--precision=fp16, or a target from sm_80 on";
  if (a != b)
    return "one precision for both operands";
  const Operation *weights = nullptr;
  if (in.form.anchorInputs[1].isPlainRead()) {
    const Value *source = in.form.anchorInputs[1].inputs[0].source;
    weights = in.form.group->operand(source->index())->def();
  }
  if (!op.is(Op::MatMul) && !(weights && weights->is(Op::Constant)))
    return "weights that are constants";
  return "a kernel that this version does not have";
}

} // namespace

TensorCoreVerdict judgeTensorCores(const GroupQuery &in, const Choice &chosen,
                                   const ScheduleOptions &options) {
  TensorCoreVerdict v;
  if (in.form.isChain()) {
    v.isContraction = true;
    v.intended = chosen.tactic.forTensorCores(in);
    if (v.intended)
      return v;
    v.reason = "one row of each image, in one kernel with what it is made of and what it makes";
    v.change = "--disable=" + chosen.tactic.info.chains.front().id.str();
    return v;
  }
  if (!in.form.anchor ||
      !in.form.anchor->isAny(Op::Conv, Op::ConvTranspose, Op::MatMul, Op::Attention))
    return v;
  v.isContraction = true;
  const llvm::StringRef multiplied = multipliedAs(in.form);
  // Data sheets give bytes and floats of 8 bits twice the rate of fp16; fp8 reaches 1.87 of it on
  // an H200 (cuBLASLt, products of 8192).
  const bool narrow = multiplicandOf(in.form) != Multiplicand::Float;
  v.rate = narrow ? 2 : multiplied == "tf32" ? 1.0 / 2 : multiplied == "tf32x3" ? 1.0 / 6 : 1;
  const Tactic *best = nullptr;
  Price bestPrice;
  std::string disabled;
  for (const Tactic *t : kFamily.tactics()) {
    if (!t->forTensorCores(in))
      continue;
    const std::string id = t->info.id.str();
    if (t == &chosen.tactic) {
      v.intended = true;
      v.refusals.clear();
      return v;
    }
    if (const Result<Choices> choices = t->choices(in); !choices) {
      v.refusals.push_back({id, choices.refusal().reason});
    } else if (!isEnabled(*t, options)) {
      disabled = id;
      v.refusals.push_back({id, "disabled"});
    } else {
      const Price its = cheapest(*choices);
      v.refusals.push_back({id, microsecondsText(its.microseconds) + " estimated"});
      if (!best || its.rank < bestPrice.rank) {
        best = t;
        bestPrice = its;
      }
    }
  }
  if (best) {
    const double its = chosen.price().microseconds;
    v.reason = best->info.id.str() + " would take " + microsecondsText(bestPrice.microseconds) +
               ", " + chosen.tactic.info.id.str() + " " +
               (its > 0 ? microsecondsText(its) : "an unknown time") + " (estimates)";
    v.change = changeOfShape(in, chosen.tactic);
  } else if (!disabled.empty()) {
    v.reason = "tactic." + disabled + " is disabled";
    v.change = "tactic." + disabled + " enabled";
  } else {
    v.reason = v.refusals.empty() ? "no tactic for its Tensor Cores" : v.refusals.back().second;
    v.change = changeOfModel(in);
  }
  return v;
}

} // namespace tenon::cuda
