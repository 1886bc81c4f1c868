// Defines the tactics `scatter`, `scatter_last` and `scatter_sorted`: rows replaced or combined at
// indices (runtime/cuda/scatter).
#include "codegen/core/TacticOf.h"
#include "codegen/core/Work.h"
#include "codegen/cuda/shared/Common.h"
#include "codegen/cuda/shared/Sort.h"

#include <cmath>

namespace tenon::cuda {
namespace {

double microsecondsOfBytes(const GroupQuery &in, double launches) {
  Effort e;
  e.bytes = double(workOf(*in.form.group).bytes);
  e.launches = launches;
  return microseconds(in.level, e);
}

int64_t rowsOf(const GroupForm &form) { return form.anchor->operand(1)->type().upperElements(); }

std::string combinerOf(const GroupForm &form) {
  const llvm::StringRef word = form.anchor->wordAttr("combiner", "none");
  return "scatter_" + (word == "none" ? "replace" : word.str());
}

/// The copy, which all begin with; the name of the configuration of what follows.
std::string emitCopy(const GroupForm &form, StepWriter &out) {
  const llvm::ArrayRef<Dim> space = form.body.space;
  const LoopNest copy = loopNest(form.anchorInputs[0], form.outputs);
  const MapKernel map = mapKernel(out, form, copy.extents, copy.outputs, vectorLength(form));
  StepWriter::Config cfg(out, "scatter");
  cfg.extents("space", space).extents("rows", form.anchorInputs[1].space);
  cfg.extents("inner", space.drop_front());
  std::string config = cfg.finish();
  out.code().line("TENON_CHECK(to.launch<V>(cuda::" + map.name + "(" + map.config + ", " +
                  out.outputs(form, copy) + ", " + out.inputs(form.anchorInputs[0], copy) +
                  ", cuda::identity_body{})));");
  return config;
}

/// How long loads make a thread wait that goes along rows, a batch at a time (runtime/cuda/
/// runtime/cuda/scatter/kernel.cuh).
double waiting(double rows, double microsecondsOfABatch) {
  constexpr double kRowsOfABatch = 8;
  return std::ceil(rows / kRowsOfABatch) * microsecondsOfABatch;
}

Result<GroupQuery> read(const GroupQuery &in) {
  return matchAlone(in, Op::Scatter)
      .andThen([&] { return fitsInt(in.form); })
      .andThen([&]() -> Result<GroupQuery> { return in; });
}

/// All rows compared.
struct Scatter {
  static constexpr llvm::StringLiteral id = "scatter",
                                       summary = "rows replaced or combined at indices";
  using Problem = GroupQuery;
  using Schedule = NoSchedule;

  static Result<Problem> match(const GroupQuery &in) { return read(in); }

  /// Every element of the updates looks at all indices; those of one row do so together. Source: 64
  /// to 30,000 rows of 1, 3 and 64 elements, each alone (H200, tenon bench --profile).
  static double microseconds(const Problem &in, const Schedule &) {
    const double updates = double(in.form.anchor->operand(2)->type().upperElements());
    const double rows = double(rowsOf(in.form));
    const double microsecondsOfABatch = updates < 32 * rows ? 0.7 : 0.35;
    Effort e;
    e.operations = updates * rows * 4;
    e.efficiency = 0.1;
    e.blocks = updates / 128;
    e.launches = 0;
    return microsecondsOfBytes(in, 2) +
           std::max(waiting(rows, microsecondsOfABatch), cuda::microseconds(in.level, e));
  }

  static void emit(const Problem &in, const Schedule &, StepWriter &out) {
    const GroupForm &form = in.form;
    out.include("cuda/scatter/kernel.cuh");
    const std::string config = emitCopy(form, out);
    launch(out, "scatter<" + combinerOf(form) + ">",
           {config, plainView(out, form.anchorInputs[1]), plainView(out, form.anchorInputs[2]),
            resultView(out, form)});
  }
};

/// The last row at each place.
struct ScatterLast {
  static constexpr llvm::StringLiteral id = "scatter_last",
                                       summary = "many rows replaced: the last one at each place";
  using Problem = GroupQuery;
  using Schedule = NoSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    Result<Problem> p = read(in);
    if (p && combinerOf(in.form) != "scatter_replace")
      return Refusal{"the combiner does not replace", ""};
    return p;
  }

  static double microseconds(const Problem &in, const Schedule &) {
    Effort e;
    e.bytes = 4 * double(in.form.body.space[0].upper()) + 12 * double(rowsOf(in.form));
    e.launches = 2;
    return microsecondsOfBytes(in, 2) + cuda::microseconds(in.level, e);
  }
  static int64_t scratch(const Problem &in, const Schedule &) {
    return 4 * in.form.body.space[0].upper();
  }

  static void emit(const Problem &in, const Schedule &, StepWriter &out) {
    const GroupForm &form = in.form;
    out.include("cuda/scatter/last.cuh");
    const std::string config = emitCopy(form, out);
    SourceWriter &w = out.code();
    w.line("const auto indices = " + plainView(out, form.anchorInputs[1]) + ";");
    w.line("int *const last = " + out.scratchPointer("int") + ";");
    w.line("TENON_CHECK(to.launch<V>(cuda::scatter_clear(" + config + ", last)));");
    w.line("TENON_CHECK(to.launch<V>(cuda::scatter_claim(" + config + ", indices, last)));");
    launch(
        out, "scatter_last",
        {config, "indices", plainView(out, form.anchorInputs[2]), resultView(out, form), "last"});
  }
};

/// Keys are places, and one behind the last.
SortedRows sortedRows(const GroupForm &form) {
  return {1, rowsOf(form), form.body.space[0].upper()};
}

/// Rows in order of their places.
struct ScatterSorted {
  static constexpr llvm::StringLiteral id = "scatter_sorted",
                                       summary = "many rows combined, in order of their places";
  using Problem = GroupQuery;
  using Schedule = NoSchedule;

  static Result<Problem> match(const GroupQuery &in) { return read(in); }

  /// Rows that meet at one place are combined one after the other.
  static double microseconds(const Problem &in, const Schedule &) {
    constexpr double kMicrosecondsOfABatch = 0.5; // source: as that of costScatter
    const double meet =
        double(rowsOf(in.form)) / double(std::max<int64_t>(in.form.body.space[0].upper(), 1));
    return microsecondsOfBytes(in, 3) + sortMicroseconds(in.level, sortedRows(in.form)) +
           waiting(meet, kMicrosecondsOfABatch);
  }
  static int64_t scratch(const Problem &in, const Schedule &) {
    return sortBytes(sortedRows(in.form));
  }

  static void emit(const Problem &in, const Schedule &, StepWriter &out) {
    const GroupForm &form = in.form;
    out.include("cuda/scatter/sorted.cuh");
    const std::string config = emitCopy(form, out);
    SourceWriter &w = out.code();
    w.line("const auto indices = " + plainView(out, form.anchorInputs[1]) + ";");
    const std::string rows = "cuda::volume(" + config + ".rows)";
    beginSort(out, sortedRows(form), rows);
    w.line("TENON_CHECK(to.launch<V>(cuda::scatter_keys(" + config + ", indices, sort)));");
    const std::string sorted = emitSort(out, in.level, sortedRows(form), "int(" + rows + ")");
    launch(
        out, "scatter_sorted<" + combinerOf(form) + ">",
        {config, "indices", plainView(out, form.anchorInputs[2]), resultView(out, form), sorted});
  }
};

} // namespace

const Tactic &kScatter = kTacticOf<Scatter>;
const Tactic &kScatterLast = kTacticOf<ScatterLast>;
const Tactic &kScatterSorted = kTacticOf<ScatterSorted>;

} // namespace tenon::cuda
