// Defines the tactic `unique`, whose result hangs on data (runtime/cuda/unique/kernel.cuh).
#include "codegen/core/TacticOf.h"
#include "codegen/core/Work.h"
#include "codegen/cuda/shared/Common.h"

namespace tenon::cuda {
namespace {

struct Unique {
  static constexpr llvm::StringLiteral id = "unique",
                                       summary = "classes of equal rows, each compared with each";
  using Problem = GroupQuery;
  using Schedule = NoSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    return matchAlone(in, Op::Unique)
        .andThen([&] { return fitsInt(in.form); })
        .andThen([&]() -> Result<Problem> { return in; });
  }
  /// Every row is compared with every other.
  static double microseconds(const Problem &in, const Schedule &) {
    const Type x = in.form.anchor->operand(0)->type();
    Effort e;
    e.bytes = double(workOf(*in.form.group).bytes);
    e.operations = double(x.upperElements()) * double(x.dim(0).upper()) * 2;
    e.efficiency = 0.05;
    e.launches = 2;
    return cuda::microseconds(in.level, e);
  }
  static int64_t scratch(const Problem &in, const Schedule &) {
    return in.form.anchor->operand(0)->type().dim(0).upper() * 4;
  }

  static void emit(const Problem &in, const Schedule &, StepWriter &out) {
    const Operation &op = *in.form.anchor;
    const Type x = op.operand(0)->type();
    out.include("cuda/unique/kernel.cuh");
    StepWriter::Config cfg(out, "config");
    cfg.extent("rows", x.dim(0)).extent("columns", x.dim(1));
    cfg.flag("sorted", op.boolAttr("sorted", true));
    const std::string config = cfg.finish();
    SourceWriter &w = out.code();
    w.line("const auto x = " + plainView(out, in.form.anchorInputs[0]) + ";");
    w.line("const auto y = " + resultView(out, in.form) + ";");
    w.line("const auto firsts = " + out.scratchPointer("int") + ";");
    w.line("TENON_CHECK(to.launch<V>(cuda::unique_first(" + config + ", x, y, firsts)));");
    launch(out, "unique_class", {config, "x", "y", "firsts"});
  }
};

} // namespace

const Tactic &kUnique = kTacticOf<Unique>;

} // namespace tenon::cuda
