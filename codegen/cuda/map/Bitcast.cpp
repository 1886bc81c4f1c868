// Defines the tactic `bitcast`: a map of the bits (runtime/cuda/map/kernel.cuh).
#include "codegen/core/TacticOf.h"
#include "codegen/core/Work.h"
#include "codegen/cuda/shared/Common.h"

namespace tenon::cuda {
namespace {

struct Bitcast {
  static constexpr llvm::StringLiteral id = "bitcast", summary = "bits copied as they are";
  static constexpr bool takesPacked = true;
  using Problem = GroupQuery;
  using Schedule = NoSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    return matchAlone(in, Op::Bitcast).andThen([&]() -> Result<Problem> { return in; });
  }
  static double microseconds(const Problem &in, const Schedule &) {
    Effort e;
    e.bytes = double(workOf(*in.form.group).bytes);
    return cuda::microseconds(in.level, e);
  }

  static void emit(const Problem &in, const Schedule &, StepWriter &out) {
    const GroupForm &form = in.form;
    const LoopNest nest = loopNest(form.anchorInputs[0], form.outputs);
    out.include("common/raw_view.h");
    const MapKernel kernel = mapKernel(out, form, nest.extents, nest.outputs, vectorLength(form));
    const Access &x = form.anchorInputs[0].inputs[0];
    SourceWriter &w = out.code();
    w.line("const auto y = " + out.outputs(form, nest) + ".head;");
    w.line("const auto x = " + out.view(x.source, nest.inputs[0]) + ";");
    launch(out, kernel.name,
           {kernel.config, "pack(raw_view(y))", "pack(raw_view(x))", "cuda::identity_body{}"});
  }
};

} // namespace

const Tactic &kBitcast = kTacticOf<Bitcast>;

} // namespace tenon::cuda
