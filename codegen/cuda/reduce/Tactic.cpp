// Defines the tactics of reductions: `reduce`, whose combiner merges partial results
// (runtime/cuda/reduce/kernel.cuh), and `fold`, which takes the elements one after the other
// (runtime/cuda/reduce/fold.cuh).
#include "codegen/core/TacticOf.h"
#include "codegen/core/Work.h"
#include "codegen/cuda/shared/Common.h"
#include "codegen/forms/AnchorForms.h"
#include "codegen/forms/ReductionForm.h"

#include <algorithm>

namespace tenon::cuda {
namespace {

struct ReduceSchedule {
  int64_t threads, lanes; // of a block, of a result
  int64_t across;         // neighbouring threads take neighbouring results

  static llvm::ArrayRef<Field<ReduceSchedule>> fields() {
    static const Field<ReduceSchedule> kFields[] = {
        {"threads", &ReduceSchedule::threads, oneOf(32, 64, 128, 256, 512, 1024)},
        {"lanes", &ReduceSchedule::lanes, oneOf(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)},
        {"across", &ReduceSchedule::across, oneOf(0, 1)},
    };
    return kFields;
  }
};

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

struct ReductionProblem {
  GroupQuery in;
  ReductionForm r;
  ReductionNest nest;
};
ReductionProblem read(const GroupQuery &in) {
  ReductionForm r = reduction(in.form);
  ReductionNest nest = reductionNest(in.form, r, true);
  return {in, std::move(r), std::move(nest)};
}

/// `schedule`: adds its keys to the configuration.
void emitReduction(const ReductionProblem &p, StepWriter &out, llvm::StringRef kernel,
                   llvm::function_ref<void(StepWriter::Config &)> schedule) {
  const GroupForm &form = p.in.form;
  const ReductionForm &r = p.r;
  const ReductionNest &nest = p.nest;
  StepWriter::Config cfg(out, "config");
  cfg.extents("kept", nest.kept.extents).extents("reduced", nest.reduced.extents);
  schedule(cfg);
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

struct Reduce {
  static constexpr llvm::StringLiteral id = "reduce",
                                       summary = "reduction, several threads per result";
  using Problem = ReductionProblem;
  using Schedule = ReduceSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    return matchReduce(in).andThen([&]() -> Result<Problem> { return read(in); });
  }

  /// Neighbouring threads go where the first input is contiguous: along results (`across`) or along
  /// the elements of one. Enough of them share a result to fill the machine.
  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    const ReductionNest &nest = p.nest;
    const int64_t results = volumeOf(nest.kept.extents), elements = volumeOf(nest.reduced.extents);
    bool across = false;
    if (!p.r.pre.inputs.empty()) {
      const Strides s = nest.overAll(stridesOf(p.r.pre.inputs[0], nest.rank));
      across =
          !s.strides.back().isConstant(1) && s.strides[nest.kept.extents.size() - 1].isConstant(1);
    }
    const auto sms = int64_t(p.in.level.multiprocessors);
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
    out.push_back({threads, lanes, across});
  }

  static Result<> legal(const Problem &p, const Schedule &s) {
    const ScheduleText text = printSchedule(id, s);
    if (s.lanes > s.threads)
      return impossible(text, "lanes are at most threads");
    int64_t bytes = 0;
    for (Element e : p.r.accumulators)
      bytes += std::max<int64_t>(bitWidth(e) / 8, 8);
    return fitsShared(p.in.level, text, s.threads * bytes);
  }

  static double microseconds(const Problem &p, const Schedule &s) {
    const Work w = workOf(*p.in.form.group);
    Effort e;
    e.bytes = double(w.bytes);
    e.operations = w.flops * 4;
    e.efficiency = 0.2;
    e.blocks = double(p.in.form.anchor->result()->type().upperElements()) * double(s.lanes) /
               double(s.threads);
    if (!s.across)
      return cuda::microseconds(p.in.level, e);
    // Source: bench/cuda/reduce/h100.csv, rms error 20 %.
    constexpr double kMemory = 1.75;
    Effort adding = e, reading = e;
    adding.bytes = 0;
    reading.operations = reading.launches = 0;
    return cuda::microseconds(p.in.level, adding) +
           kMemory * cuda::microseconds(p.in.level, reading);
  }

  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    out.include("cuda/reduce/kernel.cuh");
    emitReduction(p, out, id, [&](StepWriter::Config &cfg) {
      cfg.number("threads", s.threads).number("lanes", s.lanes).flag("across", s.across);
    });
  }
};

struct Fold {
  static constexpr llvm::StringLiteral id = "fold", summary = "reduction one element at a time";
  using Problem = ReductionProblem;
  using Schedule = NoSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    return matchFold(in).andThen([&]() -> Result<Problem> { return read(in); });
  }

  /// A thread's elements one after the other. Source: bench/cuda/program/tuned_h200.csv, 8 to 9 ns
  /// an element where `reduce` takes twice its estimate.
  static double microseconds(const Problem &p, const Schedule &) {
    const Work w = workOf(*p.in.form.group);
    const double results =
        double(std::max<int64_t>(1, p.in.form.anchor->result()->type().upperElements()));
    Effort e;
    e.bytes = double(w.bytes);
    e.blocks = results / 128;
    return cuda::microseconds(p.in.level, e) + w.flops / results * 0.0045;
  }

  static void emit(const Problem &p, const Schedule &, StepWriter &out) {
    out.include("cuda/reduce/fold.cuh");
    emitReduction(p, out, id, [](StepWriter::Config &) {});
  }
};

} // namespace

const Tactic &kReduce = kTacticOf<Reduce>;
const Tactic &kFold = kTacticOf<Fold>;

} // namespace tenon::cuda
