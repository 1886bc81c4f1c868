// Defines the tactics of reductions: `reduce`, whose combiner merges partial results
// (runtime/cuda/reduce.cuh), and `fold`, which takes the elements one after the other
// (runtime/cuda/fold.cuh).
#include "codegen/cuda/Tactics.h"

#include "codegen/AnchorForms.h"
#include "codegen/Reduction.h"
#include "codegen/Work.h"
#include "codegen/cuda/Common.h"

#include <algorithm>

namespace tenon::cuda {
namespace {

constexpr int64_t kMostThreads = 1024, kFewResults = 8, kMostResults = 32; // of a block

int64_t volumeOf(llvm::ArrayRef<Dim> extents) {
  int64_t n = 1;
  for (Dim d : extents)
    n *= std::max<int64_t>(1, d.upper());
  return n;
}

int64_t powerOfTwoUpTo(int64_t n) {
  int64_t p = 1;
  while (2 * p <= n)
    p *= 2;
  return p;
}

/// Neighbouring threads go where the first input is contiguous: along results (`across`) or along
/// the elements of one. Enough of them share a result to fill the machine.
void enumerateReduce(const TacticInput &in, llvm::SmallVectorImpl<Schedule> &out) {
  const Reduction r = reduction(in.form);
  const ReductionNest nest = reductionNest(in.form, r, true);
  const int64_t results = volumeOf(nest.kept.extents), elements = volumeOf(nest.reduced.extents);
  bool across = false;
  if (!r.pre.inputs.empty()) {
    const Strides s = nest.overAll(stridesOf(r.pre.inputs[0], nest.rank));
    across =
        !s.strides.back().isConstant(1) && s.strides[nest.kept.extents.size() - 1].isConstant(1);
  }
  const auto sms = int64_t(in.level.multiprocessors);
  int64_t lanes, threads;
  if (across) {
    // As few neighbouring results a block as fill a piece of a memory line, while blocks are few.
    const int64_t together = std::clamp<int64_t>(
        powerOfTwoUpTo(std::max<int64_t>(1, results / sms)), kFewResults, kMostResults);
    lanes = powerOfTwoUpTo(std::clamp<int64_t>(elements / 4, 1, kMostThreads / together));
    threads = std::max<int64_t>(64, lanes * together);
  } else { // a warp reads one result's neighbours
    const int64_t wanted = std::max<int64_t>(1, sms * 1024 / std::max<int64_t>(1, results));
    lanes = powerOfTwoUpTo(std::min<int64_t>({elements, wanted, kMostThreads}));
    lanes = std::max(lanes, powerOfTwoUpTo(std::min<int64_t>(elements, 32)));
    threads = std::max<int64_t>(256, lanes);
  }
  out.push_back({"reduce", {{"threads", threads}, {"lanes", lanes}, {"across", across}}});
}
void enumerateFold(const TacticInput &, llvm::SmallVectorImpl<Schedule> &out) {
  out.push_back({"fold", {}});
}

double costReduce(const TacticInput &in, const Schedule &s) {
  const Work w = workOf(*in.form.group);
  Effort e;
  e.bytes = double(w.bytes);
  e.operations = w.flops * 4;
  e.efficiency = 0.2;
  e.blocks = double(in.form.anchor->result()->type().upperElements()) * double(*s.get("lanes")) /
             double(*s.get("threads"));
  return microseconds(in.level, e);
}
/// A thread's elements one after the other. Source: bench/tuned_h200.csv, 8 to 9 ns an element
/// where `reduce` takes twice its estimate.
double costFold(const TacticInput &in, const Schedule &) {
  const Work w = workOf(*in.form.group);
  const double results =
      double(std::max<int64_t>(1, in.form.anchor->result()->type().upperElements()));
  Effort e;
  e.bytes = double(w.bytes);
  e.blocks = results / 128;
  return microseconds(in.level, e) + w.flops / results * 0.0045;
}

void emitReduction(const TacticInput &in, const Schedule &s, StepWriter &out,
                   llvm::StringRef kernel) {
  const GroupForm &form = in.form;
  const Reduction r = reduction(form);
  const ReductionNest nest = reductionNest(form, r, true);
  out.include("cuda/" + kernel.str() + ".cuh");
  StepWriter::Config cfg(out, "config");
  cfg.extents("kept", nest.kept.extents).extents("reduced", nest.reduced.extents);
  if (auto lanes = s.get("lanes"))
    cfg.number("threads", *s.get("threads"))
        .number("lanes", *lanes)
        .flag("across", *s.get("across"));
  if (isLarge(form))
    cfg.flag("large", true);
  const std::string config = cfg.finish();
  const std::string pre = out.body(r.pre, {}, "pre"), combine = writeCombiner(form, r, out);
  llvm::SmallVector<Element, 2> results;
  for (Value *v : form.anchor->results())
    results.push_back(v->type().element());
  const std::string post = out.body(form.body, results);
  auto overAll = [&](const Strides &x) { return nest.overAll(x); };
  auto overKept = [&](const Strides &x) { return nest.overKept(x); };
  SourceWriter &w = out.code();
  w.line("const auto ins = " + inputsIn(out, r.pre, overAll, nest.places) + ";");
  w.line("const auto outs = " + out.outputs(form, overKept) + ";");
  w.line("const auto post_ins = " + inputsIn(out, form.body, overKept, nest.keptPlaces) + ";");
  launch(out, kernel, {config, "ins", pre, combine, "outs", "post_ins", post});
}

void emitReduce(const TacticInput &in, const Schedule &s, StepWriter &out) {
  emitReduction(in, s, out, "reduce");
}
void emitFold(const TacticInput &in, const Schedule &s, StepWriter &out) {
  emitReduction(in, s, out, "fold");
}

} // namespace

const Tactic kReduce = {"reduce",    "reduction, several threads per result",
                        matchReduce, enumerateReduce,
                        costReduce,  nullptr,
                        nullptr,     emitReduce};
const Tactic kFold = {"fold",    "reduction one element at a time",
                      matchFold, enumerateFold,
                      costFold,  nullptr,
                      nullptr,   emitFold};

} // namespace tenon::cuda
