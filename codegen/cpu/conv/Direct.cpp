// Defines the tactic `conv_direct`: convolutions and transposed convolutions that the blocked
// kernel does not take, one sum at a time (runtime/cpu/window_direct.h).
#include "codegen/core/TacticOf.h"
#include "codegen/cpu/shared/Operands.h"
#include "codegen/cpu/shared/Window.h"

namespace tenon::cpu {
namespace {

struct ConvDirect {
  static constexpr llvm::StringLiteral id = "conv_direct",
                                       summary = "any convolution, one sum at a time";
  using Problem = GroupQuery;
  using Schedule = NoSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    if (!in.form.anchor || !in.form.anchor->isAny(Op::Conv, Op::ConvTranspose))
      return Refusal{"no convolution", ""};
    for (const ScalarProgram &p : in.form.anchorInputs)
      if (auto unbounded = isUnbounded(p); !unbounded)
        return std::move(unbounded).refusal();
    if (!in.form.anchor->operand(1)->type().hasStaticShape())
      return Refusal{"weights of a shape known only at run time", ""};
    return isUnbounded(in.form.body).andThen([&] { return Result<Problem>(in); });
  }

  static double microseconds(const Problem &p, const Schedule &) { return directCost(p); }

  static void emit(const Problem &p, const Schedule &, StepWriter &out) {
    const GroupForm &form = p.form;
    const Operation &op = *form.anchor;
    const bool transposed = op.is(Op::ConvTranspose);
    const Type x = op.operand(0)->type(), w = op.operand(1)->type();
    const int64_t groups = op.intAttr("groups", 1);
    const auto shape = w.staticShape();
    const auto rank = x.rank();

    out.include("cpu/window_direct.h");
    StepWriter::Config cfg(out, "config");
    writeWindow(cfg, op, llvm::makeArrayRef(shape).drop_front(2));
    cfg.extent("groups", groups);
    cfg.extent("channels", transposed ? shape[0] / groups : shape[1]);
    cfg.extent("filters", transposed ? shape[1] : shape[0] / groups);
    cfg.flag("transposed", transposed);
    cfg.type("accumulator", cppElement(accumulatorOf(op.result()->type().element())));
    const std::string config = cfg.finish();

    const auto places = inPlaceDims(rank);
    auto same = [](const Strides &s) { return s; };
    auto zero = [&](unsigned i, llvm::StringRef suffix) {
      return zeroPointView(out, form, i, rank, /*along: filters*/ 0, suffix);
    };
    const std::string body = out.body(form.body, {op.result()->type().element()});
    SourceWriter &code = out.code();
    code.line("const auto x = " + operandView(out, form.anchorInputs[0], same, places, "x") + ";");
    code.line("const auto w = " + operandView(out, form.anchorInputs[1], same, places, "w") + ";");
    code.line("const auto outs = " + out.outputs(form) + ";");
    code.line("const auto ins = " + out.inputs(form.body) + ";");
    code.line("cpu::conv_direct(" + config + ", x, " + zero(2, "x_zero") + ", w, " +
              zero(3, "w_zero") + ", outs, ins, " + body + ", *f.workers);");
  }
};

} // namespace

const Tactic &kConvDirect = kTacticOf<ConvDirect>;

} // namespace tenon::cpu
