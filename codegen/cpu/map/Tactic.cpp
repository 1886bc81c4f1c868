// Defines the tactic `map`: pointwise groups, broadcasts, and movement that is a strided copy, by
// one loop nest over the output (runtime/cpu/map.h).
#include "codegen/core/TacticOf.h"
#include "codegen/core/Work.h"
#include "codegen/emit/StepWriter.h"

namespace tenon::cpu {
namespace {

struct Map {
  static constexpr llvm::StringLiteral id = "map",
                                       summary =
                                           "pointwise work and strided copies in one loop nest";
  struct Problem {
    GroupQuery in;
    LoopNest nest;
  };
  using Schedule = NoSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    if (in.form.anchor)
      return Refusal{"the group has an anchor, " + in.form.anchor->name().str(), ""};
    Problem p{in, loopNest(in.form.body, in.form.outputs, /*longInner=*/true)};
    if (p.nest.extents.size() > 8)
      return Refusal{"more than eight dimensions that do not merge", ""};
    return p;
  }

  /// Bound by memory or by scalar work, whichever is slower.
  static double microseconds(const Problem &p, const Schedule &) {
    const Work w = workOf(*p.in.form.group);
    return std::max(double(w.bytes) / (p.in.level.bandwidthGBs * 1e3),
                    w.flops * 8 / (p.in.level.peakGflops * 1e3));
  }

  static void emit(const Problem &p, const Schedule &, StepWriter &out) {
    const GroupForm &form = p.in.form;
    out.include("cpu/map.h");
    const std::string body = out.body(form.body, {});
    out.code().line("const auto outs = " + out.outputs(form, p.nest) + ";");
    out.code().line("const auto ins = " + out.inputs(form.body, p.nest) + ";");
    out.code().line("cpu::map(" + out.dims().list(p.nest.extents) + ", outs, ins, " + body +
                    ", *f.workers);");
  }
};

} // namespace

const Tactic &kMap = kTacticOf<Map>;

} // namespace tenon::cpu
