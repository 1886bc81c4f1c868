// Defines the tactic `nonzero`, whose result hangs on data (runtime/cuda/nonzero/kernel.cuh).
#include "codegen/core/TacticOf.h"
#include "codegen/core/Work.h"
#include "codegen/cuda/shared/Common.h"

namespace tenon::cuda {
namespace {

struct NonZero {
  static constexpr llvm::StringLiteral id = "nonzero",
                                       summary = "indices of the elements other than zero";
  using Problem = GroupQuery;
  using Schedule = NoSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    return matchAlone(in, Op::NonZero)
        .andThen([&] { return fitsInt(in.form); })
        .andThen([&]() -> Result<Problem> { return in; });
  }
  static double microseconds(const Problem &in, const Schedule &) {
    Effort e;
    e.bytes = double(workOf(*in.form.group).bytes);
    e.launches = 2;
    return cuda::microseconds(in.level, e);
  }
  /// struct counted: the number that the host reads stands first.
  static int64_t scratch(const Problem &, const Schedule &) { return 8 + 4 * 1024; }

  static void emit(const Problem &in, const Schedule &, StepWriter &out) {
    const Operation &op = *in.form.anchor;
    const Type x = op.operand(0)->type();
    out.include("cuda/nonzero/kernel.cuh");
    StepWriter::Config cfg(out, "config");
    cfg.extents("space", x.shape());
    const std::string config = cfg.finish();
    SourceWriter &w = out.code();
    w.line("const auto x = " + plainView(out, in.form.anchorInputs[0]) + ";");
    w.line("const auto numbers = " + out.scratchPointer("cuda::counted") + ";");
    w.line("TENON_CHECK(to.launch<V>(cuda::nonzero_count(" + config + ", x, numbers)));");
    launch(out, "nonzero_place",
           {config, "x", "numbers", out.resultPointer(0, x.context().dim(0))});
  }
};

} // namespace

const Tactic &kNonZero = kTacticOf<NonZero>;

} // namespace tenon::cuda
