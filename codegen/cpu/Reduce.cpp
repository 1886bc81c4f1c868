// Defines the tactics of reductions: `reduce`, whose combiner merges partial results, and `fold`,
// which takes the elements one after the other.
#include "codegen/cpu/Tactics.h"

#include "codegen/AnchorForms.h"
#include "codegen/Reduction.h"
#include "codegen/cpu/Operands.h"

namespace tenon::cpu {
namespace {

void enumerateReduce(const TacticInput &, llvm::SmallVectorImpl<Schedule> &out) {
  out.push_back({"reduce", {}});
}
void enumerateFold(const TacticInput &, llvm::SmallVectorImpl<Schedule> &out) {
  out.push_back({"fold", {}});
}
double costReduce(const TacticInput &in, const Schedule &) { return rooflineCost(in, 0.25); }
double costFold(const TacticInput &in, const Schedule &) { return directCost(in); }

void emitReduction(const TacticInput &in, StepWriter &out, bool fold) {
  const GroupForm &form = in.form;
  const Operation &op = *form.anchor;
  const Reduction r = reduction(form);
  const ReductionNest nest = reductionNest(form, r);

  out.include(fold ? "cpu/fold.h" : "cpu/reduce.h");
  const std::string pre = out.body(r.pre, {}, "pre");
  const std::string combine = writeCombiner(form, r, out);
  llvm::SmallVector<Element, 2> results;
  bool wide = false;
  for (Value *v : op.results())
    results.push_back(v->type().element());
  for (const ScalarProgram *p : {&r.pre, &r.combine, &form.body})
    for (const ScalarNode &n : p->nodes)
      wide |= bitWidth(computeElement(n.element)) == 64;
  const std::string post = out.body(form.body, results, "body");
  auto overKept = [&](const Strides &x) { return nest.overKept(x); };
  SourceWriter &w = out.code();
  w.line("const auto ins = " +
         inputsIn(
             out, r.pre, [&](const Strides &x) { return nest.overAll(x); }, nest.places) +
         ";");
  w.line("const auto outs = " + out.outputs(form, overKept) + ";");
  w.line("const auto post_ins = " + inputsIn(out, form.body, overKept, nest.keptPlaces) + ";");
  const std::string lanes =
      wide && !fold ? "<" + lanesType(lanesFor(in.level, Element::F64)) + ">" : "";
  w.line(std::string("cpu::") + (fold ? "fold" : "reduce") + lanes + "(" +
         out.dims().list(nest.kept.extents) + ", " + out.dims().list(nest.reduced.extents) +
         ", ins, " + pre + ", " + combine + ", outs, post_ins, " + post + ", *f.workers);");
}

void emitReduce(const TacticInput &in, const Schedule &, StepWriter &out) {
  emitReduction(in, out, false);
}
void emitFold(const TacticInput &in, const Schedule &, StepWriter &out) {
  emitReduction(in, out, true);
}

} // namespace

const Tactic kReduce = {"reduce",    "reduction with partial results in several lanes",
                        matchReduce, enumerateReduce,
                        costReduce,  nullptr,
                        nullptr,     emitReduce};
const Tactic kFold = {"fold",    "reduction one element at a time",
                      matchFold, enumerateFold,
                      costFold,  nullptr,
                      nullptr,   emitFold};

} // namespace tenon::cpu
