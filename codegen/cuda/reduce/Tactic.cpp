// Defines the tactics of reductions: `reduce`, whose combiner merges partial results
// (runtime/cuda/reduce/kernel.cuh), and `fold`, which takes the elements one after the other
// (runtime/cuda/reduce/fold.cuh).
#include "codegen/core/TacticOf.h"
#include "codegen/core/Work.h"
#include "codegen/cuda/shared/Common.h"
#include "codegen/forms/AnchorForms.h"
#include "codegen/forms/ReductionForm.h"

#include <algorithm>
#include <cmath>

namespace tenon::cuda {
namespace {

struct ReduceSchedule {
  int64_t threads, lanes; // of a block, of a result in it
  int64_t across;         // neighbouring threads take neighbouring results
  int64_t vector;         // elements of a run
  int64_t blocks;         // of a result

  static llvm::ArrayRef<Field<ReduceSchedule>> fields() {
    static const Field<ReduceSchedule> kFields[] = {
        {"threads", &ReduceSchedule::threads, oneOf(32, 64, 128, 256, 512, 1024)},
        {"lanes", &ReduceSchedule::lanes, oneOf(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)},
        {"across", &ReduceSchedule::across, oneOf(0, 1)},
        {"vector", &ReduceSchedule::vector, VectorSchedule::allowed(), 1},
        {"blocks", &ReduceSchedule::blocks, between(1, 1024), 1},
    };
    return kFields;
  }
};

constexpr int64_t kMostThreads = 1024, kFewResults = 8, kMostResults = 32; // of a block
constexpr int64_t kMostBlocks = 1024;                                      // of a result

/// Microseconds, but where something else stands.
struct ReduceCosts {
  double block;   // the start of a block
  double step;    // each time that half of a result's lanes are folded into the others
  double fetch;   // a round of loads under way together
  double run;     // nanoseconds a multiprocessor takes for a warp's runs, beside their elements
  double element; // the same for an element of each lane
  double port;    // KB a microsecond that a multiprocessor reads
  double memory;  // of what the machine's memory moves
  double apart;   // over that, where neighbouring threads take neighbouring results, many
  double join;    // folding what several blocks gave
  double part;    // each of these that a lane takes, one after the other
  static constexpr llvm::StringLiteral family = "reduce";
};
constexpr ReduceCosts kCosts = {
#include "codegen/cuda/reduce/costs.inc"
};

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
/// `scratch`: the last argument, if not empty.
void emitReduction(const ReductionProblem &p, StepWriter &out, llvm::StringRef kernel,
                   llvm::function_ref<void(StepWriter::Config &)> schedule,
                   const std::string &scratch = "") {
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
  std::vector<std::string> arguments = {config, "ins", pre, combine, "outs", "post_ins", post};
  if (!scratch.empty())
    arguments.push_back(scratch);
  launch(out, kernel, arguments);
}

/// Whether the first input is contiguous along results, not along the elements of one.
bool areNeighbours(const ReductionProblem &p) {
  if (p.r.pre.inputs.empty())
    return false;
  const Strides s = p.nest.overAll(stridesOf(p.r.pre.inputs[0], p.nest.rank));
  return !s.strides.back().isConstant(1) && s.strides[p.nest.kept.extents.size() - 1].isConstant(1);
}

/// Elements of a run along the last of the reduced dimensions: 16 bytes of what has them side by
/// side, where everything read has them so or the same for all.
int64_t runLength(const ReductionProblem &p) {
  int64_t length = 16;
  for (const Access &a : p.r.pre.inputs) {
    const Strides s = p.nest.overAll(stridesOf(a, p.nest.rank));
    const unsigned bits = bitWidth(a.source->type().element());
    if (s.strides.back().isConstant(0))
      continue;
    if (!s.strides.back().isConstant(1) || bits < 8)
      return 1;
    length = std::min<int64_t>(length, std::max<int64_t>(1, 128 / bits));
  }
  const Dim inner = p.nest.reduced.extents.back();
  while (length > 1 && (!inner.isConstant() || inner.constant() % length))
    length /= 2;
  return length;
}

bool areRunsWhole(const ReductionProblem &p, int64_t vector, const StepWriter &out) {
  const auto last = unsigned(p.nest.kept.extents.size() + p.nest.reduced.extents.size()) - 1;
  return areReadInWholeRuns(
      out, p.r.pre.inputs, p.nest.rank, [&](const Strides &s) { return p.nest.overAll(s); }, last,
      p.nest.reduced.extents.back(), vector);
}

struct Reduce : PricedBy<kCosts> {
  static constexpr llvm::StringLiteral id = "reduce",
                                       summary = "reduction, several threads per result";
  using Problem = ReductionProblem;
  using Schedule = ReduceSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    return matchReduce(in).andThen([&]() -> Result<Problem> { return read(in); });
  }

  /// Neighbouring threads go where the first input is contiguous. Enough of them share a result to
  /// fill the machine.
  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    const ReductionNest &nest = p.nest;
    const int64_t results = volumeOf(nest.kept.extents), elements = volumeOf(nest.reduced.extents);
    const bool across = areNeighbours(p);
    const auto sms = int64_t(p.in.level.multiprocessors);
    auto add = [&](int64_t threads, int64_t lanes, int64_t vector, int64_t blocks) {
      const ReduceSchedule s = {threads, lanes, across, vector, blocks};
      if (llvm::none_of(out, [&](const ReduceSchedule &o) { return printedOf(o) == printedOf(s); }))
        out.push_back(s);
    };
    // Few results are shared by blocks while there are multiprocessors without one.
    auto addShared = [&](int64_t threads, int64_t lanes, int64_t vector) {
      add(threads, lanes, vector, 1);
      const int64_t groups = ceilDiv(results, threads / lanes);
      for (int64_t blocks = 4; blocks <= kMostBlocks && groups * blocks <= 8 * sms; blocks *= 2)
        if (elements >= blocks * lanes * vector)
          add(threads, lanes, vector, blocks);
    };
    if (across) {
      // As few neighbouring results a block as fill a piece of a memory line, while blocks are few.
      const int64_t together = std::clamp<int64_t>(
          powerOfTwoUpTo(std::max<int64_t>(1, results / sms)), kFewResults, kMostResults);
      const int64_t lanes =
          powerOfTwoUpTo(std::clamp<int64_t>(elements / 4, 1, kMostThreads / together));
      addShared(std::max<int64_t>(64, lanes * together), lanes, 1);
      if (together < kMostResults && results >= kMostResults)
        addShared(256, powerOfTwoUpTo(std::clamp<int64_t>(elements / 4, 1, 8)), 1);
    } else { // a warp reads one result's neighbours
      const int64_t vector = runLength(p), runs = ceilDiv(elements, vector);
      const int64_t wanted = std::max<int64_t>(1, sms * 1024 / std::max<int64_t>(1, results));
      int64_t lanes = powerOfTwoUpTo(std::min<int64_t>({runs, wanted, kMostThreads}));
      lanes = std::max(lanes, powerOfTwoUpTo(std::min<int64_t>(runs, 32)));
      addShared(std::max<int64_t>(256, lanes), lanes, vector);
      for (int64_t others : {8, 32, 128, 256, 512})
        if (others <= runs && others != lanes)
          addShared(std::max<int64_t>(256, others), others, vector);
    }
  }

  static Result<> legal(const Problem &p, const Schedule &s) {
    const ScheduleText text = printSchedule(id, s);
    if (s.lanes > s.threads)
      return impossible(text, "lanes are at most threads");
    const Dim inner = p.nest.reduced.extents.back();
    if (p.nest.reduced.extents.size() > 1 && s.vector > 1 &&
        (!inner.isConstant() || inner.constant() % s.vector))
      return impossible(text, "vector divides the last of several dimensions that are reduced");
    return fitsShared(p.in.level, text, s.threads * partBytes(p) + 16);
  }

  static double microseconds(const Problem &p, const Schedule &s, const ReduceCosts &c) {
    const TargetLevel &level = p.in.level;
    const double sms = std::max(1u, level.multiprocessors);
    const int64_t results = volumeOf(p.nest.kept.extents),
                  elements = volumeOf(p.nest.reduced.extents);
    const double blocks = double(ceilDiv(results, s.threads / s.lanes) * s.blocks);
    const double perThread = double(ceilDiv(ceilDiv(elements, s.vector), s.lanes * s.blocks));
    const double room = std::floor(1024.0 / double(s.threads)) + 1;
    const double waves = std::ceil(blocks / (sms * room)), used = std::min(1.0, blocks / sms);
    const double issued = blocks / (sms * used) * double(s.threads) / 32 * perThread *
                          (c.run + c.element * double(s.vector)) * 1e-3;
    const double kilobytes = double(workOf(*p.in.form.group).bytes) / 1e3;
    const double moved =
        std::max(kilobytes / (level.bandwidthGBs * c.memory), kilobytes / (sms * used * c.port)) *
        (s.across ? c.apart * (1 + 16 / pieceBytes(p, s)) : 1);
    return level.launchMicroseconds +
           (s.blocks > 1 ? c.join + c.part * double(ceilDiv(s.blocks, s.lanes)) : 0) +
           waves * (c.block + c.fetch * std::ceil(perThread / (s.vector > 2 ? 4 : 8)) +
                    c.step * std::log2(double(s.lanes)) * (s.blocks > 1 ? 2 : 1)) +
           std::max(issued, moved);
  }

  static int64_t scratch(const Problem &p, const Schedule &s) {
    return s.blocks > 1 ? volumeOf(p.nest.kept.extents) * s.blocks * partBytes(p) : 0;
  }
  static int64_t zeroed(const Problem &p, const Schedule &s) {
    return s.blocks > 1 ? 4 * ceilDiv(volumeOf(p.nest.kept.extents), s.threads / s.lanes) : 0;
  }

  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    out.include("cuda/reduce/kernel.cuh");
    emitReduction(
        p, out, id,
        [&](StepWriter::Config &cfg) {
          cfg.number("threads", s.threads).number("lanes", s.lanes).flag("across", s.across);
          cfg.number("vector", s.vector).flag("whole", areRunsWhole(p, s.vector, out));
          cfg.number("blocks", s.blocks);
          if (s.blocks > 1)
            cfg.number("part", partBytes(p));
        },
        s.blocks > 1 ? "cuda::reduce_scratch{" + out.scratchPointer("unsigned char") + ", " +
                           out.zeroedPointer("int") + "}"
                     : "");
  }

private:
  /// What a block's neighbouring results have side by side in memory.
  static double pieceBytes(const Problem &p, const Schedule &s) {
    const Type x = p.r.pre.inputs[0].source->type(); // there is one, since threads are neighbours
    const int64_t rows = s.threads / s.lanes;
    return double(rows * int64_t(bitWidth(x.element()))) / 8;
  }
  /// At most, of the accumulators as the kernel keeps them: each aligned to 8 bytes, and an end.
  static int64_t partBytes(const Problem &p) {
    int64_t bytes = 8;
    for (Element e : p.r.accumulators)
      bytes += std::max<int64_t>(bitWidth(e) / 8, 8);
    return int64_t(llvm::alignTo(uint64_t(bytes), 16));
  }
};

struct Fold {
  static constexpr llvm::StringLiteral id = "fold", summary = "reduction one element at a time";
  using Problem = ReductionProblem;
  using Schedule = NoSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    return matchFold(in).andThen([&]() -> Result<Problem> { return read(in); });
  }

  /// A thread's elements one after the other. Source: bench/cuda/reduce/h100.csv, 8 to 12 ns an
  /// element; where threads read rows of their own, bench/cuda/reduce/h100_rows.csv: 50 ns, and
  /// lines of memory come up to six times.
  static double microseconds(const Problem &p, const Schedule &) {
    const Work w = workOf(*p.in.form.group);
    const double results =
        double(std::max<int64_t>(1, p.in.form.anchor->result()->type().upperElements()));
    Effort e;
    e.bytes = double(w.bytes);
    e.blocks = results / 128;
    const bool neighbours = areNeighbours(p);
    if (!neighbours)
      e.bytes *= std::clamp(e.bytes / results / 32, 1.0, 6.0);
    return cuda::microseconds(p.in.level, e) + w.flops / results * (neighbours ? 0.0095 : 0.05);
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
