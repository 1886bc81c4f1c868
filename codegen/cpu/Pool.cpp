// Defines the tactics of pools: `pooling` (1-d and 2-d, lanes along the channels) and
// `pooling_direct` (any number of spatial dimensions).
#include "codegen/cpu/Tactics.h"

#include "codegen/AnchorForms.h"
#include "codegen/cpu/Operands.h"
#include "codegen/cpu/Window.h"

namespace tenon::cpu {
namespace {

bool matchAny(const TacticInput &in, std::string &why) {
  return matchAnchor(in, Op::Pool, why) && isUnbounded(in.form.anchorInputs[0], why);
}

bool matchPooling(const TacticInput &in, std::string &why) {
  return matchAny(in, why) && convProblem(*in.form.anchor, why);
}

void enumeratePooling(const TacticInput &, llvm::SmallVectorImpl<Schedule> &out) {
  out.push_back({"pooling", {}});
}
void enumerateDirect(const TacticInput &, llvm::SmallVectorImpl<Schedule> &out) {
  out.push_back({"pooling_direct", {}});
}
double costPooling(const TacticInput &in, const Schedule &) { return rooflineCost(in, 0.1); }
double costDirect(const TacticInput &in, const Schedule &) { return directCost(in); }

void emitPooling(const TacticInput &in, const Schedule &, StepWriter &out) {
  const GroupForm &form = in.form;
  const Operation &op = *form.anchor;
  std::string why;
  const ConvProblem p = *convProblem(op, why);

  out.include("cpu/pooling.h");
  StepWriter::Config cfg(out, "config", "cpu::pooling_defaults");
  writePooling(cfg, op, p);
  cfg.type("kind", "cpu::" + poolingKind(op).str());
  const Element e = poolingAccumulator(op);
  if (bitWidth(e) == 64)
    cfg.type("lanes", lanesType(lanesFor(in.level, e)));
  cfg.type("accumulator", cppElement(e));
  const std::string config = cfg.finish();

  auto plane = [&](const Strides &s) { return inPlane(s, p); };
  const auto places = planePlaces(p);
  const std::string x = operandView(out, form.anchorInputs[0], plane, places, "prologue");
  const std::string body = out.body(form.body, {op.result()->type().element()});
  SourceWriter &w = out.code();
  w.line("const auto x = " + x + ";");
  w.line("const auto outs = " + out.outputs(form, plane) + ";");
  w.line("const auto ins = " + inputsIn(out, form.body, plane, places) + ";");
  w.line("cpu::pooling(" + config + ", x, outs, ins, " + body + ", *f.workers);");
}

void emitDirect(const TacticInput &in, const Schedule &, StepWriter &out) {
  const GroupForm &form = in.form;
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
  const std::string x = operandView(out, form.anchorInputs[0], same, inPlaceDims(rank), "prologue");
  const std::string body = out.body(form.body, {op.result()->type().element()});
  SourceWriter &w = out.code();
  w.line("const auto x = " + x + ";");
  w.line("const auto outs = " + out.outputs(form) + ";");
  w.line("const auto ins = " + out.inputs(form.body) + ";");
  w.line("cpu::pooling_direct(" + config + ", x, outs, ins, " + body + ", *f.workers);");
}

} // namespace

const Tactic kPooling = {"pooling",    "largest element or mean of windows, lanes along channels",
                         matchPooling, enumeratePooling,
                         costPooling,  nullptr,
                         nullptr,      emitPooling};
const Tactic kPoolingDirect = {"pooling_direct", "pools of any rank, one window at a time",
                               matchAny,         enumerateDirect,
                               costDirect,       nullptr,
                               nullptr,          emitDirect};

} // namespace tenon::cpu
