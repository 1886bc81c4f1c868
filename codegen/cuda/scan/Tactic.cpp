// Defines the tactic `scan`: running folds along one dimension with a fused epilogue
// (runtime/cuda/scan/kernel.cuh).
#include "codegen/core/TacticOf.h"
#include "codegen/cuda/shared/RowLanes.h"
#include "codegen/forms/ReductionForm.h"

namespace tenon::cuda {
namespace {

struct Scan {
  static constexpr llvm::StringRef id = "scan", summary = "running folds along one dimension";
  using Problem = RowProblem;
  using Schedule = RowLanes;

  static Result<Problem> match(const GroupQuery &in) {
    if (auto anchor = matchAnchor(in, Op::Scan); !anchor)
      return anchor.refusal();
    if (bitWidth(in.form.anchor->result()->type().element()) < 8)
      return Refusal{"elements of the result share bytes", ""};
    return matchRows(in, Op::Scan);
  }
  static Result<> legal(const Problem &, const Schedule &) { return Accepted{}; }

  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    out.push_back(RowLanes::of(p));
  }

  static double microseconds(const Problem &p, const Schedule &s) {
    return s.microseconds(p, /*passes=*/1);
  }

  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    const GroupForm &form = p.in.form;
    const Operation &op = *form.anchor;
    out.include("cuda/scan/kernel.cuh");
    StepWriter::Config cfg(out, "config");
    cfg.extents("space", p.nest.extents).flag("exclusive", op.boolAttr("exclusive"));
    cfg.flag("reverse", op.boolAttr("reverse"));
    const std::string config = s.finish(cfg, form);
    launchOnRows(p, out, id, config, {writeScanCombiner(form, out)});
  }
};

} // namespace

const Tactic &kScan = kTacticOf<Scan>;

} // namespace tenon::cuda
