// Defines the tactic `pad_border`: pads that repeat, mirror or continue the tensor
// (runtime/cpu/bordered.h). Constant pads are accesses (GroupForm) and belong to `map`.
#include "codegen/core/TacticOf.h"
#include "codegen/cpu/shared/Operands.h"
#include "codegen/forms/AnchorForms.h"

namespace tenon::cpu {
namespace {

struct PadBorder {
  static constexpr llvm::StringLiteral id = "pad_border",
                                       summary = "pads that repeat, mirror or continue the tensor";
  using Problem = GroupQuery;
  using Schedule = NoSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    return matchBorderPad(in).andThen([&] { return Result<Problem>(in); });
  }

  static double microseconds(const Problem &p, const Schedule &) { return rooflineCost(p, 0.2); }

  static void emit(const Problem &p, const Schedule &, StepWriter &out) {
    const GroupForm &form = p.form;
    const Operation &op = *form.anchor;
    const Access &x = form.anchorInputs[0].inputs[0];
    const llvm::ArrayRef<Dim> extents = op.operand(0)->type().shape();
    const Strides s = stridesOf(x, unsigned(extents.size()));
    out.include("cpu/bordered.h");
    const std::string body = out.body(form.body, {op.result()->type().element()});
    const std::string ins = out.inputs(form.body);
    SourceWriter &w = out.code();
    w.line("const auto x = cpu::make_bordered_view<cpu::border_" + op.wordAttr("mode").str() +
           ">(" + out.pointer(x.source, s.offset) + ", " + out.dims().list(s.strides) + ", " +
           out.dims().list(op.dimsAttr("low")) + ", " + out.dims().list(extents) + ");");
    w.line("const auto outs = " + out.outputs(form) + ";");
    w.line("const auto ins = " + ins + ";");
    w.line("cpu::bordered(" + out.dims().list(form.body.space) + ", x, outs, ins, " + body +
           ", *f.workers);");
  }
};

} // namespace

const Tactic &kPadBorder = kTacticOf<PadBorder>;

} // namespace tenon::cpu
