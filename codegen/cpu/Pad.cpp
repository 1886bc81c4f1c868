// Defines the tactic `pad_border`: pads that repeat, mirror or continue the tensor, as a map that
// reads through a bordered_view. Constant pads are accesses (GroupForm) and belong to `map`.
#include "codegen/cpu/Tactics.h"

#include "codegen/AnchorForms.h"
#include "codegen/cpu/Operands.h"

namespace tenon::cpu {
namespace {

void enumerate(const TacticInput &, llvm::SmallVectorImpl<Schedule> &out) {
  out.push_back({"pad_border", {}});
}

double cost(const TacticInput &in, const Schedule &) { return rooflineCost(in, 0.05); }

void emit(const TacticInput &in, const Schedule &, StepWriter &out) {
  const GroupForm &form = in.form;
  const Operation &op = *form.anchor;
  const Access &x = form.anchorInputs[0].inputs[0];
  const llvm::ArrayRef<Dim> extents = op.operand(0)->type().shape();
  const Strides s = stridesOf(x, unsigned(extents.size()));
  out.include("cpu/map.h");
  out.include("cpu/bordered.h");
  const std::string body = out.body(form.body, {op.result()->type().element()});
  const std::string ins = out.inputs(form.body);
  SourceWriter &w = out.code();
  w.line("const auto x = cpu::make_bordered_view<cpu::border_" + op.wordAttr("mode").str() + ">(" +
         out.pointer(x.source, s.offset) + ", " + out.dims().list(s.strides) + ", " +
         out.dims().list(op.dimsAttr("low")) + ", " + out.dims().list(extents) + ");");
  w.line("const auto outs = " + out.outputs(form) + ";");
  w.line("const auto ins = " + packWithFirst("x", ins) + ";");
  w.line("cpu::map(" + out.dims().list(form.body.space) + ", outs, ins, " + body +
         ", *f.workers);");
}

} // namespace

const Tactic kPadBorder = {"pad_border",   "pads that repeat, mirror or continue the tensor",
                           matchBorderPad, enumerate,
                           cost,           nullptr,
                           nullptr,        emit};

} // namespace tenon::cpu
