// Defines the tactic `normalize`: zero mean and unit variance with a fused epilogue
// (runtime/cpu/normalize.h).
#include "codegen/core/TacticOf.h"
#include "codegen/cpu/shared/Operands.h"
#include "codegen/forms/RowNest.h"

namespace tenon::cpu {
namespace {

struct Normalize {
  static constexpr llvm::StringLiteral id = "normalize", summary = "zero mean and unit variance";
  using Problem = RowProblem;
  using Schedule = NoSchedule;

  static Result<Problem> match(const GroupQuery &in) { return matchRows(in, Op::Normalize); }

  static double microseconds(const Problem &p, const Schedule &) { return rooflineCost(p.in, 0.2); }

  static void emit(const Problem &p, const Schedule &, StepWriter &out) {
    const GroupForm &form = p.in.form;
    const Operation &op = *form.anchor;
    const RowNest &nest = p.nest;
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
};

} // namespace

const Tactic &kNormalize = kTacticOf<Normalize>;

} // namespace tenon::cpu
