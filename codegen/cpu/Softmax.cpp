// Defines the tactic `softmax`: normalised exponentials with a fused epilogue
// (runtime/cpu/softmax.h).
#include "codegen/cpu/Tactics.h"

#include "codegen/RowNest.h"
#include "codegen/cpu/Operands.h"

namespace tenon::cpu {
namespace {

bool match(const TacticInput &in, std::string &why) {
  return matchAnchor(in, Op::Softmax, why) && isUnbounded(in.form.anchorInputs[0], why);
}

void enumerate(const TacticInput &, llvm::SmallVectorImpl<Schedule> &out) {
  out.push_back({"softmax", {}});
}

double cost(const TacticInput &in, const Schedule &) { return rooflineCost(in, 0.1); }

void emit(const TacticInput &in, const Schedule &, StepWriter &out) {
  const GroupForm &form = in.form;
  const Operation &op = *form.anchor;
  const ScalarProgram &x = form.anchorInputs[0];
  const RowNest nest = rowNest(form, {op.intAttr("axis")}, /*atLeastOne=*/false);
  out.include("cpu/softmax.h");
  const std::string view = operandView(out, x, nest, nest.placeOf, "prologue");
  const std::string body = out.body(form.body, {op.result()->type().element()});
  SourceWriter &w = out.code();
  w.line("const auto x = " + view + ";");
  w.line("const auto outs = " + out.outputs(form, nest) + ";");
  w.line("const auto ins = " + inputsIn(out, form.body, nest, nest.placeOf) + ";");
  w.line(std::string("cpu::softmax<") + (op.boolAttr("log") ? "true" : "false") + ">(" +
         out.dims().list(nest.extents) + ", x, outs, ins, " + body + ", *f.workers);");
}

} // namespace

const Tactic kSoftmax = {
    "softmax", "softmax along one dimension", match, enumerate, cost, nullptr, nullptr, emit};

} // namespace tenon::cpu
