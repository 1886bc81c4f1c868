// Defines the tactic `scan`: running folds along one dimension with a fused epilogue
// (runtime/cpu/scan.h).
#include "codegen/core/TacticOf.h"
#include "codegen/cpu/shared/Operands.h"
#include "codegen/forms/ReductionForm.h"
#include "codegen/forms/RowNest.h"

namespace tenon::cpu {
namespace {

struct Scan {
  static constexpr llvm::StringLiteral id = "scan", summary = "running folds along one dimension";
  using Problem = RowProblem;
  using Schedule = NoSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    return matchRows(in, Op::Scan, /*atLeastOne=*/false);
  }

  static double microseconds(const Problem &p, const Schedule &) { return rooflineCost(p.in, 0.1); }

  static void emit(const Problem &p, const Schedule &, StepWriter &out) {
    const GroupForm &form = p.in.form;
    const Operation &op = *form.anchor;
    out.include("cpu/scan.h");
    StepWriter::Config cfg(out, "config");
    cfg.flag("exclusive", op.boolAttr("exclusive")).flag("reverse", op.boolAttr("reverse"));
    const std::string config = cfg.finish();
    const std::string x =
        operandView(out, form.anchorInputs[0], p.nest, p.nest.placeOf, "prologue");
    const std::string combine = writeScanCombiner(form, out);
    const std::string body = out.body(form.body, {op.result()->type().element()});
    SourceWriter &w = out.code();
    w.line("const auto x = " + x + ";");
    w.line("const auto outs = " + out.outputs(form, p.nest) + ";");
    w.line("const auto ins = " + inputsIn(out, form.body, p.nest, p.nest.placeOf) + ";");
    w.line("cpu::scan(" + config + ", " + out.dims().list(p.nest.extents) + ", x, " + combine +
           ", outs, ins, " + body + ", *f.workers);");
  }
};

} // namespace

const Tactic &kScan = kTacticOf<Scan>;

} // namespace tenon::cpu
