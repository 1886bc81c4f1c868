// Defines the tactic `softmax`: normalised exponentials along one dimension with a fused epilogue
// (runtime/cuda/softmax.cuh).
#include "codegen/cuda/Tactics.h"

#include "codegen/RowNest.h"
#include "codegen/Work.h"
#include "codegen/cuda/Common.h"

namespace tenon::cuda {
namespace {

bool match(const TacticInput &in, std::string &why) {
  return matchAnchor(in, Op::Softmax, why) && isUnbounded(in.form.anchorInputs[0], why);
}

RowNest nestOf(const GroupForm &form) { return rowNest(form, {form.anchor->intAttr("axis")}); }

void enumerate(const TacticInput &in, llvm::SmallVectorImpl<Schedule> &out) {
  const RowNest nest = nestOf(in.form);
  const Strides y = nest(stridesOf(in.form.outputs[0], unsigned(in.form.body.space.size())));
  const size_t last = nest.extents.size() - 1;
  const int64_t n = nest.rowLength();
  const bool across = !y.strides[last].isConstant(1) && y.strides[last - 1].isConstant(1);
  int64_t lanes = 1;
  while (lanes < 256 && lanes * 4 < n)
    lanes *= 2;
  out.push_back(
      {"softmax", {{"lanes", across ? std::min<int64_t>(lanes, 32) : lanes}, {"across", across}}});
}

double cost(const TacticInput &in, const Schedule &s) {
  const Work w = workOf(*in.form.group);
  const RowNest nest = nestOf(in.form);
  Effort e;
  e.bytes = double(w.bytes) * 1.5;
  e.operations = w.flops * 8;
  e.efficiency = 0.2;
  e.blocks = double(in.form.anchor->result()->type().upperElements()) / double(nest.rowLength()) *
             double(*s.get("lanes")) / 256;
  return microseconds(in.level, e);
}

void emit(const TacticInput &in, const Schedule &s, StepWriter &out) {
  const GroupForm &form = in.form;
  const Operation &op = *form.anchor;
  const RowNest nest = nestOf(form);
  out.include("cuda/softmax.cuh");
  StepWriter::Config cfg(out, "config");
  cfg.extents("space", nest.extents).flag("log", op.boolAttr("log"));
  cfg.number("lanes", *s.get("lanes")).flag("across", *s.get("across"));
  if (isLarge(form))
    cfg.flag("large", true);
  const std::string config = cfg.finish();
  const std::string x = operandView(out, form.anchorInputs[0], nest, nest.placeOf, "prologue");
  const std::string body = out.body(form.body, {op.result()->type().element()});
  SourceWriter &w = out.code();
  w.line("const auto x = " + x + ";");
  w.line("const auto outs = " + out.outputs(form, nest) + ";");
  w.line("const auto ins = " + inputsIn(out, form.body, nest, nest.placeOf) + ";");
  launch(out, "softmax", {config, "x", "outs", "ins", body});
}

} // namespace

const Tactic kSoftmax = {
    "softmax", "softmax along one dimension", match, enumerate, cost, nullptr, nullptr, emit};

} // namespace tenon::cuda
