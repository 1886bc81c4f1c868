// Defines the tactic `softmax`: normalised exponentials along one dimension with a fused epilogue
// (runtime/cuda/softmax/kernel.cuh).
#include "codegen/cuda/shared/RowGroup.h"

namespace tenon::cuda {
namespace {

struct SoftmaxCosts {
  RowCosts rows;
  static constexpr llvm::StringLiteral family = "softmax";
};
constexpr SoftmaxCosts kCosts = {
#include "codegen/cuda/softmax/costs.inc"
};

struct Softmax : PricedBy<kCosts> {
  static constexpr llvm::StringLiteral id = "softmax", summary = "softmax along one dimension";
  using Problem = RowProblem;
  using Schedule = RowSchedule;
  static constexpr RowKernel kKernel = {id, /*passes=*/3, /*partBytes=*/16};

  static Result<Problem> match(const GroupQuery &in) { return matchRows(in, Op::Softmax); }
  static void candidates(const Problem &p, std::vector<Schedule> &out) { rows::candidates(p, out); }
  static Result<> legal(const Problem &p, const Schedule &s) { return rows::legal(p, s, kKernel); }
  static double microseconds(const Problem &p, const Schedule &s, const SoftmaxCosts &c) {
    return rows::microseconds(p, s, kKernel, c.rows);
  }
  static int64_t scratch(const Problem &p, const Schedule &s) {
    return rows::scratch(p, s, kKernel);
  }
  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    out.include("cuda/softmax/kernel.cuh");
    rows::emit(p, s, kKernel, "log", p.in.form.anchor->boolAttr("log"), "", out);
  }
};

} // namespace

const Tactic &kSoftmax = kTacticOf<Softmax>;

} // namespace tenon::cuda
