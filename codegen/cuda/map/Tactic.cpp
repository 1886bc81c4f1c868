// Defines the tactics `map`, `map_transposed` and `map_interleaved`: pointwise groups, broadcasts,
// and movement that is a strided copy (runtime/cuda/map/kernel.cuh); where an input is contiguous
// along another dimension than the output through shared memory (runtime/cuda/map/transposed.cuh),
// or in registers, if the output's is short (runtime/cuda/map/interleaved.cuh).
#include "codegen/core/TacticOf.h"
#include "codegen/core/Work.h"
#include "codegen/cuda/shared/Common.h"

namespace tenon::cuda {
namespace {

struct MapProblem {
  GroupQuery in;
  LoopNest nest;
};
Result<MapProblem> read(const GroupQuery &in) {
  if (in.form.anchor)
    return Refusal{"the group has an anchor, " + in.form.anchor->name().str(), ""};
  return MapProblem{in, loopNest(in.form.body, in.form.outputs)};
}

/// Refused where elements of a result share bytes, too.
Result<MapProblem> readWhole(const GroupQuery &in) {
  Result<MapProblem> p = read(in);
  if (p &&
      llvm::any_of(in.form.outputs, [](const OutputForm &o) { return isPacked(o.type.element()); }))
    return Refusal{"elements of a result share bytes", ""};
  return p;
}

bool isUnit(const Strides &s, size_t dim) { return s.strides[dim].isConstant(1); }
bool isBroadcast(const Strides &s, size_t dim) { return s.strides[dim].isConstant(0); }

/// Inputs whose neighbours along the last dimension lie apart in memory.
bool isScattered(const Strides &s) {
  const size_t last = s.strides.size() - 1;
  return !isUnit(s, last) && !isBroadcast(s, last);
}

/// How much of what is moved for a scattered operand is moved for nothing else: of a sector one
/// element, unless its neighbours are used soon after.
double neighboursApart(const Strides &s) {
  const Dim step = s.strides.back();
  return step.isConstant() ? std::min(8.0, std::max(1.0, double(std::abs(step.constant())))) : 8;
}

/// penalty(strides): by how much more is moved for a scattered operand. `each`: points of a thread.
template <class Penalty> double mapCost(const MapProblem &p, int64_t each, Penalty penalty) {
  const auto &[in, nest] = p;
  const Work w = workOf(*in.form.group);
  double bytes = 0;
  for (size_t i = 0; i < in.form.body.inputs.size(); ++i) {
    const Type t = in.form.body.inputs[i].source->type();
    bytes += double(byteSize(t.element(), t.upperElements())) *
             (isScattered(nest.inputs[i]) ? penalty(nest.inputs[i]) : 1);
  }
  double points = 1;
  for (Dim d : nest.extents)
    points *= double(std::max<int64_t>(1, d.upper()));
  for (size_t i = 0; i < in.form.outputs.size(); ++i)
    bytes += points * bitWidth(in.form.outputs[i].type.element()) / 8 *
             (isScattered(nest.outputs[i]) ? penalty(nest.outputs[i]) : 1);
  Effort e;
  e.bytes = bytes;
  e.operations = w.flops * 4;
  e.blocks = points / (256.0 * double(each));
  return microseconds(in.level, e);
}

void emitLaunch(const MapProblem &p, StepWriter &out, const MapKernel &kernel) {
  const auto &[in, nest] = p;
  const std::string body = out.body(in.form.body, {});
  out.code().line("const auto outs = " + out.outputs(in.form, nest) + ";");
  out.code().line("const auto ins = " + out.inputs(in.form.body, nest) + ";");
  launch(out, kernel.name, {kernel.config, "outs", "ins", body});
}

/// A kernel whose Config is the space and a number.
void emitLaunch(const MapProblem &p, StepWriter &out, llvm::StringRef kernel, llvm::StringRef key,
                int64_t value) {
  StepWriter::Config cfg(out, "config");
  cfg.extents("space", p.nest.extents).number(key, value);
  if (isLarge(p.in.form))
    cfg.flag("large", true);
  emitLaunch(p, out, {kernel.str(), cfg.finish()});
}

struct Map {
  static constexpr llvm::StringLiteral id = "map", summary = "pointwise work and strided copies";
  static constexpr bool takesPacked = true;
  using Problem = MapProblem;
  using Schedule = VectorSchedule;

  static Result<Problem> match(const GroupQuery &in) { return read(in); }
  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    out.push_back({vectorLength(p.in.form)});
  }
  static Result<> legal(const Problem &, const Schedule &) { return Accepted{}; }
  static double microseconds(const Problem &p, const Schedule &) {
    return mapCost(p, vectorLength(p.in.form), neighboursApart);
  }
  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    out.letShapeVary();
    emitLaunch(p, out, mapKernel(out, p.in.form, p.nest.extents, p.nest.outputs, s.vector));
  }
};

/// The dimension that some input is contiguous along while the output is so along the last; −1 when
/// there is none.
int acrossOf(const LoopNest &nest, const ScalarProgram &body) {
  const size_t last = nest.extents.size() - 1;
  for (const Strides &s : nest.outputs)
    if (!isUnit(s, last))
      return -1;
  for (size_t i = 0; i < nest.inputs.size(); ++i)
    if (!body.inputs[i].bounded && isScattered(nest.inputs[i]))
      for (size_t d = 0; d < last; ++d)
        if (isUnit(nest.inputs[i], d))
          return int(d);
  return -1;
}

struct TransposedSchedule {
  int64_t across; // the dimension along which tiles are read

  static llvm::ArrayRef<Field<TransposedSchedule>> fields() {
    static const Field<TransposedSchedule> kFields[] = {
        {"across", &TransposedSchedule::across, between(0, INT32_MAX)},
    };
    return kFields;
  }
};

struct MapTransposed {
  static constexpr llvm::StringLiteral id = "map_transposed",
                                       summary = "pointwise work on transposed inputs, by tiles";
  static constexpr bool takesPacked = true;
  using Problem = MapProblem;
  using Schedule = TransposedSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    Result<Problem> p = readWhole(in);
    if (!p)
      return p;
    const int across = acrossOf(p->nest, in.form.body);
    if (across < 0)
      return Refusal{"no input is contiguous along another dimension than the output", ""};
    if (Result<> fits = legal(*p, {across}); !fits)
      return std::move(fits).refusal();
    return p;
  }
  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    out.push_back({acrossOf(p.nest, p.in.form.body)});
  }

  /// Any dimension but the last: what is not contiguous along it is read in place.
  static Result<> legal(const Problem &p, const Schedule &s) {
    const ScheduleText text = printSchedule(id, s);
    const int64_t last = int64_t(p.nest.extents.size()) - 1;
    if (s.across >= last)
      return impossible(text, "across is below " + std::to_string(last));
    int64_t bytes = 0; // of the tiles, as the kernel has them
    for (size_t i = 0; i < p.nest.inputs.size(); ++i) {
      const Access &a = p.in.form.body.inputs[i];
      if (!a.bounded && isScattered(p.nest.inputs[i]) && isUnit(p.nest.inputs[i], size_t(s.across)))
        bytes += 32 * 33 * bitWidth(computeElement(a.source->type().element())) / 8;
    }
    return fitsShared(p.in.level, text, bytes);
  }

  static double microseconds(const Problem &p, const Schedule &s) {
    // Tiles of 32 x 32 that extents do not fill read and write whole sectors for nothing.
    double waste = 1;
    for (Dim d : {p.nest.extents[size_t(s.across)], p.nest.extents.back()})
      waste *= std::max(1.0, 8.0 / double(std::max<int64_t>(1, d.upper())));
    return mapCost(p, vectorLength(p.in.form), [waste](const Strides &) { return waste; }) + 0.3;
  }

  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    out.include("cuda/map/transposed.cuh");
    emitLaunch(p, out, "map_transposed", "across", s.across);
  }
};

struct MapInterleaved {
  static constexpr llvm::StringLiteral id = "map_interleaved",
                                       summary = "pointwise work on inputs that lie side by side "
                                                 "in the output";
  static constexpr bool takesPacked = true;
  using Problem = MapProblem;
  using Schedule = VectorSchedule;
  static constexpr int64_t kMostRuns = 8, kMostElements = 64; // of a thread

  static Result<Problem> match(const GroupQuery &in) {
    Result<Problem> p = readWhole(in);
    if (!p)
      return p;
    const LoopNest &nest = p->nest;
    const size_t last = nest.extents.size() - 1;
    if (last == 0 || !nest.extents[last].isConstant() ||
        nest.extents[last].constant() > kMostRuns ||
        llvm::any_of(nest.outputs, [&](const Strides &s) {
          return !isUnit(s, last) || s.strides[last - 1] != nest.extents[last];
        }))
      return Refusal{"the output is not contiguous along its last two dimensions, the last of at "
                     "most " +
                         std::to_string(kMostRuns),
                     ""};
    if (llvm::none_of(nest.inputs, isBeside))
      return Refusal{"no input is contiguous along the dimension before the last", ""};
    return p;
  }
  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    // Runs of which the next begins on a whole word, too: others move element by element.
    const Dim along = p.nest.extents[p.nest.extents.size() - 2];
    Schedule s{vectorLength(p.in.form)};
    while (!legal(p, s) || (along.isConstant() && along.constant() % s.vector != 0))
      s.vector /= 2;
    out.push_back(s);
  }
  static Result<> legal(const Problem &p, const Schedule &s) {
    if (s.vector * p.nest.extents.back().constant() > kMostElements)
      return impossible(printSchedule(id, s),
                        "a thread has at most " + std::to_string(kMostElements) + " elements");
    return Accepted{};
  }
  static double microseconds(const Problem &p, const Schedule &s) {
    return mapCost(p, s.vector * p.nest.extents.back().constant(), [](const Strides &strides) {
      return isBeside(strides) ? 1 : neighboursApart(strides);
    });
  }
  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    out.include("cuda/map/interleaved.cuh");
    emitLaunch(p, out, "map_interleaved", "vector", s.vector);
  }

private:
  /// Whether an input is contiguous along the dimension before the last.
  static bool isBeside(const Strides &s) {
    return isScattered(s) && isUnit(s, s.strides.size() - 2);
  }
};

} // namespace

const Tactic &kMap = kTacticOf<Map>;
const Tactic &kMapInterleaved = kTacticOf<MapInterleaved>;
const Tactic &kMapTransposed = kTacticOf<MapTransposed>;

} // namespace tenon::cuda
