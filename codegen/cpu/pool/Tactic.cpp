// Defines the tactics of pools: `pooling` (1-d and 2-d, lanes along the channels) and
// `pooling_direct` (any number of spatial dimensions).
#include "codegen/core/TacticOf.h"
#include "codegen/cpu/shared/Operands.h"
#include "codegen/cpu/shared/Window.h"
#include "codegen/forms/AnchorForms.h"

namespace tenon::cpu {
namespace {

Result<> matchPool(const GroupQuery &in) {
  return matchAnchor(in, Op::Pool).andThen([&] { return isUnbounded(in.form.anchorInputs[0]); });
}

struct Pooling {
  static constexpr llvm::StringLiteral
      id = "pooling",
      summary = "largest element or mean of windows, lanes along channels";
  struct Problem {
    GroupQuery in;
    ConvProblem window;
  };
  using Schedule = NoSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    return matchPool(in).andThen([&]() -> Result<Problem> {
      auto window = convProblem(*in.form.anchor);
      if (!window)
        return std::move(window).refusal();
      return Problem{in, *window};
    });
  }

  static double microseconds(const Problem &p, const Schedule &) { return rooflineCost(p.in, 0.1); }

  static void emit(const Problem &p, const Schedule &, StepWriter &out) {
    const GroupForm &form = p.in.form;
    const Operation &op = *form.anchor;

    out.include("cpu/pooling.h");
    StepWriter::Config cfg(out, "config", "cpu::pooling_defaults");
    writePooling(cfg, op, p.window);
    cfg.type("kind", "cpu::" + poolingKind(op).str());
    const Element e = poolingAccumulator(op);
    if (bitWidth(e) == 64)
      cfg.type("lanes", lanesType(lanesFor(p.in.level, e)));
    cfg.type("accumulator", cppElement(e));
    const std::string config = cfg.finish();

    auto plane = [&](const Strides &s) { return inPlane(s, p.window); };
    const auto places = planePlaces(p.window);
    const std::string x = operandView(out, form.anchorInputs[0], plane, places, "prologue");
    const std::string body = out.body(form.body, {op.result()->type().element()});
    SourceWriter &w = out.code();
    w.line("const auto x = " + x + ";");
    w.line("const auto outs = " + out.outputs(form, plane) + ";");
    w.line("const auto ins = " + inputsIn(out, form.body, plane, places) + ";");
    w.line("cpu::pooling(" + config + ", x, outs, ins, " + body + ", *f.workers);");
  }
};

struct PoolingDirect {
  static constexpr llvm::StringLiteral id = "pooling_direct",
                                       summary = "pools of any rank, one window at a time";
  using Problem = GroupQuery;
  using Schedule = NoSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    return matchPool(in).andThen([&] { return Result<Problem>(in); });
  }

  static double microseconds(const Problem &p, const Schedule &) { return directCost(p); }

  static void emit(const Problem &p, const Schedule &, StepWriter &out) {
    const GroupForm &form = p.form;
    const Operation &op = *form.anchor;
    const auto rank = unsigned(form.body.space.size());
    out.include("cpu/window_direct.h");
    StepWriter::Config cfg(out, "config");
    writeWindow(cfg, op, op.intsAttr("kernel"));
    cfg.extent("channels", op.operand(0)->type().dim(1));
    cfg.type("kind", "cpu::" + poolingKind(op).str())
        .type("accumulator", cppElement(poolingAccumulator(op)));
    const std::string config = cfg.finish();
    auto same = [](const Strides &s) { return s; };
    const std::string x =
        operandView(out, form.anchorInputs[0], same, inPlaceDims(rank), "prologue");
    const std::string body = out.body(form.body, {op.result()->type().element()});
    SourceWriter &w = out.code();
    w.line("const auto x = " + x + ";");
    w.line("const auto outs = " + out.outputs(form) + ";");
    w.line("const auto ins = " + out.inputs(form.body) + ";");
    w.line("cpu::pooling_direct(" + config + ", x, outs, ins, " + body + ", *f.workers);");
  }
};

} // namespace

const Tactic &kPooling = kTacticOf<Pooling>;
const Tactic &kPoolingDirect = kTacticOf<PoolingDirect>;

} // namespace tenon::cpu
