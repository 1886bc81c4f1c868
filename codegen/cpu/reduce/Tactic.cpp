// Defines the tactics of reductions: `reduce`, whose combiner merges partial results, and `fold`,
// which takes the elements one after the other.
#include "codegen/core/TacticOf.h"
#include "codegen/cpu/shared/Operands.h"
#include "codegen/emit/BodyWriter.h"
#include "codegen/forms/AnchorForms.h"
#include "codegen/forms/ReductionForm.h"

namespace tenon::cpu {
namespace {

struct ReductionProblem {
  GroupQuery in;
  ReductionForm reduction;
  ReductionNest nest;
};

Result<ReductionProblem> reductionProblem(const GroupQuery &in) {
  ReductionForm r = reduction(in.form);
  ReductionNest nest = reductionNest(in.form, r);
  return ReductionProblem{in, std::move(r), std::move(nest)};
}

/// Whether what becomes of results is wider than they are: kernels choose their lanes by views.
bool widensResults(const GroupForm &form) {
  return llvm::any_of(form.body.nodes, [&](const ScalarNode &n) {
    return bitWidth(computeElement(n.element)) == 64;
  });
}

void emitReduction(const ReductionProblem &p, StepWriter &out, bool fold) {
  const GroupForm &form = p.in.form;
  const Operation &op = *form.anchor;
  const ReductionForm &r = p.reduction;
  const ReductionNest &nest = p.nest;

  out.include(fold ? "cpu/fold.h" : "cpu/reduce.h");
  const std::string pre = out.body(r.pre, {}, "pre");
  const std::string combine = writeCombiner(form, r, out);
  llvm::SmallVector<Element, 2> results;
  for (Value *v : op.results())
    results.push_back(v->type().element());
  // As many lanes as the fold has of its widest elements; results are few.
  bool wide = false;
  const auto widen = [&](Element e) { wide |= bitWidth(computeElement(e)) == 64; };
  for (const ScalarProgram *program : {&r.pre, &r.combine})
    for (const ScalarNode &n : program->nodes)
      widen(n.indexDim >= 0 ? indexElement(*program, n.indexDim) : n.element);
  const std::string post = out.body(form.body, results, "body");
  auto overKept = [&](const Strides &x) { return nest.overKept(x); };
  SourceWriter &w = out.code();
  w.line("const auto ins = " +
         inputsIn(
             out, r.pre, [&](const Strides &x) { return nest.overAll(x); }, nest.places) +
         ";");
  w.line("const auto outs = " + out.outputs(form, overKept) + ";");
  w.line("const auto post_ins = " + inputsIn(out, form.body, overKept, nest.keptPlaces) + ";");
  const Element widest = wide ? Element::F64 : Element::F32;
  const std::string lanes = !fold && (wide || widensResults(form))
                                ? "<" + lanesType(lanesFor(p.in.level, widest)) + ">"
                                : "";
  w.line(std::string("cpu::") + (fold ? "fold" : "reduce") + lanes + "(" +
         out.dims().list(nest.kept.extents) + ", " + out.dims().list(nest.reduced.extents) +
         ", ins, " + pre + ", " + combine + ", outs, post_ins, " + post + ", *f.workers);");
}

struct Reduce {
  static constexpr llvm::StringLiteral id = "reduce",
                                       summary = "reduction with partial results in several lanes";
  using Problem = ReductionProblem;
  using Schedule = NoSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    return matchReduce(in).andThen([&] { return reductionProblem(in); });
  }

  static double microseconds(const Problem &p, const Schedule &) {
    return rooflineCost(p.in, 0.25);
  }

  static void emit(const Problem &p, const Schedule &, StepWriter &out) {
    emitReduction(p, out, false);
  }
};

struct Fold {
  static constexpr llvm::StringLiteral id = "fold", summary = "reduction one element at a time";
  using Problem = ReductionProblem;
  using Schedule = NoSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    return matchFold(in).andThen([&] { return reductionProblem(in); });
  }

  static double microseconds(const Problem &p, const Schedule &) { return directCost(p.in); }

  static void emit(const Problem &p, const Schedule &, StepWriter &out) {
    emitReduction(p, out, true);
  }
};

} // namespace

const Tactic &kReduce = kTacticOf<Reduce>;
const Tactic &kFold = kTacticOf<Fold>;

} // namespace tenon::cpu
