// Defines the tactic `gather`: elements picked by indices along one dimension, as a map that reads
// through a gathered_view.
#include "codegen/core/TacticOf.h"
#include "codegen/cpu/shared/Operands.h"
#include "codegen/forms/AnchorForms.h"

namespace tenon::cpu {
namespace {

struct Gather {
  static constexpr llvm::StringLiteral id = "gather",
                                       summary = "elements picked by indices along one dimension";
  struct Problem {
    GroupQuery in;
    GatherForm gather;
  };
  using Schedule = NoSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    return matchGather(in).andThen([&]() -> Result<Problem> {
      return Problem{in, gatherForm(in.form)};
    });
  }

  static double microseconds(const Problem &p, const Schedule &) { return rooflineCost(p.in, 0.1); }

  static void emit(const Problem &p, const Schedule &, StepWriter &out) {
    const GroupForm &form = p.in.form;
    const GatherForm &g = p.gather;
    out.include("cpu/map.h");
    const std::string body = out.body(form.body, {form.anchor->result()->type().element()});
    const std::string ins = out.inputs(form.body, g.nest);
    SourceWriter &w = out.code();
    w.line("const auto x = tenon::make_gathered_view(" +
           out.view(form.anchorInputs[0].inputs[0].source, g.from) + ", " +
           out.view(form.anchorInputs[1].inputs[0].source, g.indices) + ", " +
           single(out, g.stride) + ", " + single(out, g.extent) + ");");
    w.line("const auto outs = " + out.outputs(form, g.nest) + ";");
    w.line("const auto ins = " + packWithFirst("x", ins) + ";");
    w.line("cpu::map(" + out.dims().list(g.nest.extents) + ", outs, ins, " + body +
           ", *f.workers);");
  }
};

} // namespace

const Tactic &kGather = kTacticOf<Gather>;

} // namespace tenon::cpu
