// Defines the tactic `topk`: the largest or smallest elements along one dimension
// (runtime/cuda/topk.cuh).
#include "codegen/cuda/Tactics.h"

#include "codegen/AnchorForms.h"
#include "codegen/cuda/Common.h"

namespace tenon::cuda {
namespace {

bool match(const TacticInput &in, std::string &why) {
  return matchAnchor(in, Op::TopK, why) && isUnbounded(in.form.anchorInputs[0], why) &&
         fitsInt(in.form, why);
}

void enumerate(const TacticInput &, llvm::SmallVectorImpl<Schedule> &out) {
  out.push_back({"topk", {}});
}

/// Every element is compared with its whole row.
double cost(const TacticInput &in, const Schedule &) {
  const Type x = in.form.anchor->operand(0)->type();
  const double n = double(x.dim(unsigned(in.form.anchor->intAttr("axis"))).upper());
  Effort e;
  e.operations = double(x.upperElements()) * n * 4;
  e.efficiency = 0.05;
  e.blocks = double(x.upperElements()) / 128;
  return microseconds(in.level, e);
}

void emit(const TacticInput &in, const Schedule &, StepWriter &out) {
  const GroupForm &form = in.form;
  const Operation &op = *form.anchor;
  const Type x = op.operand(0)->type();
  const AxisLast last = axisLast(x, unsigned(op.intAttr("axis")));
  llvm::SmallVector<Dim, 6> space = last.others;
  space.push_back(x.dim(last.axis));
  out.include("cuda/topk.cuh");
  StepWriter::Config cfg(out, "config");
  cfg.extents("space", space).extent("k", op.dimsAttr("k")[0]);
  cfg.flag("largest", op.boolAttr("largest", true));
  const std::string config = cfg.finish();
  const std::string view = operandView(out, form.anchorInputs[0], last, last.placeOf, "prologue");
  const std::string body = out.body(form.body, {x.element(), Element::I64});
  SourceWriter &w = out.code();
  w.line("const auto x = " + view + ";");
  w.line("const auto outs = " + out.outputs(form, last) + ";");
  w.line("const auto ins = " + inputsIn(out, form.body, last, last.placeOf) + ";");
  launch(out, "topk", {config, "x", "outs", "ins", body});
}

} // namespace

const Tactic kTopK = {
    "topk", "the largest elements along one dimension", match, enumerate, cost, nullptr, nullptr,
    emit};

} // namespace tenon::cuda
