// Defines the tactic `normalize`: zero mean and unit variance with a fused epilogue
// (runtime/cpu/normalize.h).
#include "codegen/cpu/Tactics.h"

#include "codegen/RowNest.h"
#include "codegen/cpu/Operands.h"

namespace tenon::cpu {
namespace {

bool match(const TacticInput &in, std::string &why) {
  return matchAnchor(in, Op::Normalize, why) && isUnbounded(in.form.anchorInputs[0], why);
}

void enumerate(const TacticInput &, llvm::SmallVectorImpl<Schedule> &out) {
  out.push_back({"normalize", {}});
}

double cost(const TacticInput &in, const Schedule &) { return rooflineCost(in, 0.2); }

void emit(const TacticInput &in, const Schedule &, StepWriter &out) {
  const GroupForm &form = in.form;
  const Operation &op = *form.anchor;
  const RowNest nest = rowNest(form, op.intsAttr("axes"));
  const Element compute = op.result()->type().element();
  out.include("cpu/normalize.h");
  const std::string x = operandView(out, form.anchorInputs[0], nest, nest.placeOf, "prologue");
  const std::string body = out.body(form.body, {compute});
  SourceWriter &w = out.code();
  w.line("const auto x = " + x + ";");
  w.line("const auto outs = " + out.outputs(form, nest) + ";");
  w.line("const auto ins = " + inputsIn(out, form.body, nest, nest.placeOf) + ";");
  w.line("cpu::normalize<" + std::to_string(nest.reducedExtents().size()) +
         (op.boolAttr("centered") ? ", true>(" : ", false>(") + out.dims().list(nest.extents) +
         ", " + cppScalar(compute, op.floatAttr("epsilon")) + ", x, outs, ins, " + body +
         ", *f.workers);");
}

} // namespace

const Tactic kNormalize = {
    "normalize", "zero mean and unit variance", match, enumerate, cost, nullptr, nullptr, emit};

} // namespace tenon::cpu
