// Defines the tactic `normalize`: zero mean and unit variance with a fused epilogue
// (runtime/cuda/normalize/kernel.cuh).
#include "codegen/cuda/normalize/Costs.h"

namespace tenon::cuda {
namespace {

struct Normalize : PricedBy<kNormalizeCosts> {
  static constexpr llvm::StringLiteral id = "normalize", summary = "zero mean and unit variance";
  using Problem = RowProblem;
  using Schedule = RowSchedule;
  static constexpr RowKernel kKernel = {id, /*passes=*/3, /*partBytes=*/24};

  static Result<Problem> match(const GroupQuery &in) { return matchRows(in, Op::Normalize); }
  static void candidates(const Problem &p, std::vector<Schedule> &out) { rows::candidates(p, out); }
  static Result<> legal(const Problem &p, const Schedule &s) { return rows::legal(p, s, kKernel); }
  static double microseconds(const Problem &p, const Schedule &s, const NormalizeCosts &c) {
    return rows::microseconds(p, s, kKernel, c.rows);
  }
  static int64_t scratch(const Problem &p, const Schedule &s) {
    return rows::scratch(p, s, kKernel);
  }
  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    const Operation &op = *p.in.form.anchor;
    out.include("cuda/normalize/kernel.cuh");
    rows::emit(p, s, kKernel, "centered", op.boolAttr("centered"),
               cppScalar(op.result()->type().element(), op.floatAttr("epsilon")), out);
  }
};

} // namespace

const Tactic &kNormalize = kTacticOf<Normalize>;

} // namespace tenon::cuda
