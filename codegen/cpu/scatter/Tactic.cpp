// Defines the tactics `scatter`, `non_max_suppression` and `unique`, kernels whose threads would
// meet, so that one does the work; and `bitcast`.
#include "codegen/core/TacticOf.h"
#include "codegen/cpu/shared/Operands.h"

#include <cmath>

namespace tenon::cpu {
namespace {

struct Scatter {
  static constexpr llvm::StringLiteral id = "scatter",
                                       summary = "rows replaced or combined at indices";
  using Problem = GroupQuery;
  using Schedule = NoSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    return matchAlone(in, Op::Scatter).andThen([&] { return Result<Problem>(in); });
  }

  static double microseconds(const Problem &p, const Schedule &) { return directCost(p); }

  static void emit(const Problem &p, const Schedule &, StepWriter &out) {
    const GroupForm &form = p.form;
    const llvm::StringRef combiner = form.anchor->wordAttr("combiner", "none");
    const std::string name = combiner == "none" ? "replace" : combiner.str();
    out.include("cpu/scatter.h");
    out.code().line(
        "cpu::scatter<scatter_" + name + ">(" + out.dims().list(form.body.space) + ", " +
        out.dims().list(form.anchorInputs[1].space) + ", " + plainView(out, form.anchorInputs[0]) +
        ", " + plainView(out, form.anchorInputs[1]) + ", " + plainView(out, form.anchorInputs[2]) +
        ", " + resultView(out, form) + ", *f.workers);");
  }
};

struct Suppression {
  static constexpr llvm::StringLiteral id = "non_max_suppression",
                                       summary = "the best boxes that overlap little";
  using Problem = GroupQuery;
  using Schedule = NoSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    return matchAlone(in, Op::NonMaxSuppression).andThen([&] { return Result<Problem>(in); });
  }

  static int64_t scratch(const Problem &p, const Schedule &) {
    return p.form.anchor->operand(0)->type().dim(1).upper() * 8; // one index_t each
  }

  static double microseconds(const Problem &p, const Schedule &) { return directCost(p); }

  static void emit(const Problem &p, const Schedule &, StepWriter &out) {
    const GroupForm &form = p.form;
    const Operation &op = *form.anchor;
    const llvm::ArrayRef<Dim> scores = op.operand(1)->type().shape();
    auto number = [&](llvm::StringRef name, double otherwise) {
      return cppScalar(Element::F32, op.floatAttr(name, otherwise));
    };
    out.include("cpu/non_max_suppression.h");
    out.code().line(std::string("cpu::non_max_suppression<") +
                    (op.boolAttr("center", false) ? "true" : "false") + ">(" +
                    single(out, scores[0]) + ", " + single(out, scores[1]) + ", " +
                    single(out, scores[2]) + ", " + single(out, op.dimsAttr("k")[0]) + ", " +
                    plainView(out, form.anchorInputs[0]) + ", " +
                    plainView(out, form.anchorInputs[1]) + ", " + resultView(out, form) + ", " +
                    number("iou_threshold", 0) + ", " + number("score_threshold", -INFINITY) +
                    ", " + out.scratchPointer("index_t") + ");");
  }
};

struct Unique {
  static constexpr llvm::StringLiteral id = "unique", summary = "classes of equal rows, by sorting";
  using Problem = GroupQuery;
  using Schedule = NoSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    return matchAlone(in, Op::Unique).andThen([&] { return Result<Problem>(in); });
  }

  static int64_t scratch(const Problem &p, const Schedule &) {
    return p.form.anchor->operand(0)->type().dim(0).upper() * 16; // two index_t each
  }

  static double microseconds(const Problem &p, const Schedule &) { return directCost(p); }

  static void emit(const Problem &p, const Schedule &, StepWriter &out) {
    const Type x = p.form.anchor->operand(0)->type();
    out.include("cpu/unique.h");
    out.code().line(std::string("cpu::unique<") +
                    (p.form.anchor->boolAttr("sorted", true) ? "true" : "false") + ">(" +
                    single(out, x.dim(0)) + ", " + single(out, x.dim(1)) + ", " +
                    plainView(out, p.form.anchorInputs[0]) + ", " + resultView(out, p.form) + ", " +
                    out.scratchPointer("index_t") + ");");
  }
};

struct Bitcast {
  static constexpr llvm::StringLiteral id = "bitcast", summary = "bits copied as they are";
  using Problem = GroupQuery;
  using Schedule = NoSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    return matchAlone(in, Op::Bitcast).andThen([&] { return Result<Problem>(in); });
  }

  static double microseconds(const Problem &p, const Schedule &) { return directCost(p); }

  static void emit(const Problem &p, const Schedule &, StepWriter &out) {
    out.include("cpu/bitcast.h");
    out.code().line("cpu::bitcast(" + out.dims().list(p.form.body.space) + ", " +
                    resultView(out, p.form) + ", " + plainView(out, p.form.anchorInputs[0]) +
                    ", *f.workers);");
  }
};

} // namespace

const Tactic &kScatter = kTacticOf<Scatter>;
const Tactic &kNonMaxSuppression = kTacticOf<Suppression>;
const Tactic &kUnique = kTacticOf<Unique>;
const Tactic &kBitcast = kTacticOf<Bitcast>;

} // namespace tenon::cpu
