// Defines the tactic `gather`: elements picked by indices along one dimension, as a map that reads
// through a gathered_view.
#include "codegen/cpu/Tactics.h"

#include "codegen/AnchorForms.h"
#include "codegen/cpu/Operands.h"

namespace tenon::cpu {
namespace {

void enumerate(const TacticInput &, llvm::SmallVectorImpl<Schedule> &out) {
  out.push_back({"gather", {}});
}

double cost(const TacticInput &in, const Schedule &) { return rooflineCost(in, 0.1); }

void emit(const TacticInput &in, const Schedule &, StepWriter &out) {
  const GroupForm &form = in.form;
  const GatherForm g = gatherForm(form);
  out.include("cpu/map.h");
  const std::string body = out.body(form.body, {form.anchor->result()->type().element()});
  const std::string ins = out.inputs(form.body, g.nest);
  SourceWriter &w = out.code();
  w.line("const auto x = tenon::make_gathered_view(" +
         out.view(form.anchorInputs[0].inputs[0].source, g.from) + ", " +
         out.view(form.anchorInputs[1].inputs[0].source, g.indices) + ", " + single(out, g.stride) +
         ", " + single(out, g.extent) + ");");
  w.line("const auto outs = " + out.outputs(form, g.nest) + ";");
  w.line("const auto ins = " + packWithFirst("x", ins) + ";");
  w.line("cpu::map(" + out.dims().list(g.nest.extents) + ", outs, ins, " + body + ", *f.workers);");
}

} // namespace

const Tactic kGather = {"gather",    "elements picked by indices along one dimension",
                        matchGather, enumerate,
                        cost,        nullptr,
                        nullptr,     emit};

} // namespace tenon::cpu
