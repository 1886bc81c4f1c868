// Defines the tactic `map`: pointwise groups, broadcasts, and movement that is a strided copy, by
// one loop nest over the output (runtime/cpu/map.h).
#include "codegen/cpu/Tactics.h"

#include "codegen/Work.h"
#include "codegen/emit/StepWriter.h"

namespace tenon::cpu {
namespace {

bool match(const TacticInput &in, std::string &why) {
  if (in.form.anchor) {
    why = "the group has an anchor, " + in.form.anchor->name().str();
    return false;
  }
  if (loopNest(in.form.body, in.form.outputs, /*longInner=*/true).extents.size() > 8) {
    why = "more than eight dimensions that do not merge";
    return false;
  }
  return true;
}

void enumerate(const TacticInput &, llvm::SmallVectorImpl<Schedule> &out) {
  out.push_back({"map", {}});
}

/// Bound by memory or by scalar work, whichever is slower.
double cost(const TacticInput &in, const Schedule &) {
  const Work w = workOf(*in.form.group);
  return std::max(double(w.bytes) / (in.level.bandwidthGBs * 1e3),
                  w.flops * 8 / (in.level.peakGflops * 1e3));
}

void emit(const TacticInput &in, const Schedule &, StepWriter &out) {
  out.include("cpu/map.h");
  const GroupForm &form = in.form;
  const LoopNest nest = loopNest(form.body, form.outputs, /*longInner=*/true);
  const std::string body = out.body(form.body, {});
  out.code().line("const auto outs = " + out.outputs(form, nest) + ";");
  out.code().line("const auto ins = " + out.inputs(form.body, nest) + ";");
  out.code().line("cpu::map(" + out.dims().list(nest.extents) + ", outs, ins, " + body +
                  ", *f.workers);");
}

} // namespace

const Tactic kMap = {"map",   "pointwise work and strided copies in one loop nest",
                     match,   enumerate,
                     cost,    nullptr,
                     nullptr, emit};

} // namespace tenon::cpu
