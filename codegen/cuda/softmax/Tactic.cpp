// Defines the tactic `softmax`: normalised exponentials along one dimension with a fused epilogue
// (runtime/cuda/softmax/kernel.cuh).
#include "codegen/core/TacticOf.h"
#include "codegen/cuda/shared/RowLanes.h"

namespace tenon::cuda {
namespace {

struct Softmax {
  static constexpr llvm::StringRef id = "softmax", summary = "softmax along one dimension";
  using Problem = RowProblem;
  using Schedule = RowLanes;

  static Result<Problem> match(const GroupQuery &in) { return matchRows(in, Op::Softmax); }
  static Result<> legal(const Problem &, const Schedule &) { return Accepted{}; }

  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    out.push_back(RowLanes::of(p));
  }

  static double microseconds(const Problem &p, const Schedule &s) {
    return s.microseconds(p, /*passes=*/1.5);
  }

  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    const GroupForm &form = p.in.form;
    out.include("cuda/softmax/kernel.cuh");
    StepWriter::Config cfg(out, "config");
    cfg.extents("space", p.nest.extents).flag("log", form.anchor->boolAttr("log"));
    launchOnRows(p, out, id, s.finish(cfg, form));
  }
};

} // namespace

const Tactic &kSoftmax = kTacticOf<Softmax>;

} // namespace tenon::cuda
