// Defines the tactics of resize: `resize` (height and width, runtime/cuda/resize/kernel.cuh) and
// `resize_any` (any dimensions and element type, runtime/cuda/resize/any.cuh). Which elements an
// output reads, and with what weights, stands in tables: computed here, or filled by a kernel of
// their own (runtime/cuda/resize/tables.cuh) where extents are open.
#include "codegen/core/TacticOf.h"
#include "codegen/core/Work.h"
#include "codegen/cuda/shared/Common.h"
#include "codegen/forms/ResizeForm.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace tenon::cuda {
namespace {

Result<> matchAny(const GroupQuery &in) {
  return matchResize(in).andThen([&] { return fitsInt(in.form); });
}

/// The image as (n, c, h, w); 1-d images have height 1.
ConvProblem planeOf(const Operation &op) {
  const Type x = op.operand(0)->type(), y = op.result()->type();
  const Dim one = x.context().dim(1);
  ConvProblem p;
  p.spatialRank = int(x.rank()) - 2;
  const bool flat = p.spatialRank == 1;
  p.batch = y.dim(0);
  p.inHeight = flat ? one : x.dim(2);
  p.outHeight = flat ? one : y.dim(2);
  p.inWidth = x.dim(flat ? 2 : 3);
  p.outWidth = y.dim(flat ? 2 : 3);
  return p;
}

Result<> resamplesPlane(const Operation &op) {
  const unsigned rank = op.result()->type().rank();
  if (rank < 3 || rank > 4 || isResampled(op, 0) || isResampled(op, 1))
    return Refusal{"dimensions other than height and width are resampled", ""};
  return resamplesInside(op);
}

/// `other`: operations of a thread beside its elements'.
double microsecondsOf(const GroupQuery &in, double vector, double efficiency, double other) {
  const Work w = workOf(*in.form.group);
  const double threads = double(in.form.anchor->result()->type().upperElements()) / vector;
  Effort e;
  e.bytes = double(w.bytes) * 1.5;
  e.operations = w.flops * 2 + threads * other;
  e.efficiency = efficiency;
  e.blocks = threads / 128;
  return microseconds(in.level, e);
}

/// A constant table inside a device function that looks it up.
template <class T, class Spell>
void writeLookup(SourceWriter &w, const std::string &type, const std::string &name, size_t taps,
                 const std::vector<T> &values, Spell spell) {
  w.open("TENON_DEVICE " + type + " " + name + "(int out, int tap) const");
  w.line("static constexpr " + type + " table[] = {");
  std::string line;
  for (size_t i = 0; i < values.size(); ++i) {
    line += spell(values[i]) + (i + 1 < values.size() ? ", " : "");
    if (line.size() > 90 || i + 1 == values.size()) {
      w.line("    " + llvm::StringRef(line).rtrim().str());
      line.clear();
    }
  }
  w.line("};");
  w.line("return table[out * " + std::to_string(taps) + " + tap];");
  w.close();
}

/// Outputs that repeat: the one at `o` reads elements o / period * advance + delta, `taps` for each
/// of a period's outputs, kept within the image.
struct Repeat {
  int64_t period, advance;
  size_t taps;
  std::vector<int64_t> deltas;
  std::vector<double> weights;
};

/// How much of each element an output takes.
std::map<int64_t, double> parts(size_t taps, const int64_t *indices, const double *weights) {
  std::map<int64_t, double> sum;
  for (size_t t = 0; t < taps; ++t)
    if (taps == 1 || weights[t] != 0)
      sum[indices[t]] += taps == 1 ? 1 : weights[t];
  return sum;
}
bool isSame(const std::map<int64_t, double> &a, const std::map<int64_t, double> &b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](auto &x, auto &y) {
           return x.first == y.first && std::abs(x.second - y.second) < 1e-6;
         });
}

constexpr int64_t kLongestPeriod = 8;
constexpr size_t kMostWeights = 32; // of a period: constants in the code
constexpr size_t kFewWeights = 4;   // where the phase is known at run time only
constexpr int64_t kMostSpan = 40;   // elements of a row in a thread's registers

/// Whether a table repeats, by what stands in its middle: at the ends, elements beyond the image
/// count for the last ones within.
llvm::Optional<Repeat> repeatOf(const ResizeTable &table, int64_t extent) {
  const auto outputs = int64_t(table.indices.size() / table.taps);
  const auto taps = int64_t(table.taps);
  for (int64_t period = 1; period <= kLongestPeriod; period *= 2) {
    const int64_t middle = outputs / 2 / period * period, number = middle / period;
    if (size_t(period * taps) > kMostWeights || middle + period >= outputs)
      return llvm::None;
    Repeat r{period,
             table.indices[(middle + period) * taps] - table.indices[middle * taps],
             table.taps,
             {},
             {}};
    if (r.advance < 1)
      continue;
    for (int64_t i = middle * taps; i < (middle + period) * taps; ++i) {
      r.deltas.push_back(table.indices[i] - number * r.advance);
      r.weights.push_back(taps > 1 ? table.weights[i] : 1);
    }
    bool same = true;
    std::vector<int64_t> indices(table.taps);
    for (int64_t o = 0; o < outputs && same; ++o) {
      const int64_t phase = o % period * taps;
      for (int64_t t = 0; t < taps; ++t)
        indices[t] =
            std::clamp<int64_t>(o / period * r.advance + r.deltas[phase + t], 0, extent - 1);
      same = isSame(parts(table.taps, indices.data(), &r.weights[phase]),
                    parts(table.taps, &table.indices[o * taps],
                          taps > 1 ? &table.weights[o * taps] : nullptr));
    }
    if (same)
      return r;
  }
  return llvm::None;
}
llvm::Optional<Repeat> repeatOf(const Operation &op, unsigned d) {
  if (!isResampled(op, d) || !hasKnownTable(op, d) || weightsOfResize(op) != Element::F32)
    return llvm::None;
  return repeatOf(resizeTable(op, d), op.operand(0)->type().dim(d).constant());
}
/// Elements of a row that `vector` outputs read.
int64_t spanOf(const Repeat &r, int64_t vector) {
  const auto [least, most] = std::minmax_element(r.deltas.begin(), r.deltas.end());
  return (vector / r.period - 1) * r.advance + *most - *least + 1;
}

/// Whether runs of `vector` outputs are whole periods of elements that a thread's registers hold.
bool isRun(const Repeat &r, int64_t vector) {
  return vector > 1 && vector % r.period == 0 && spanOf(r, vector) <= kMostSpan;
}

/// A constant function of a phase and a tap. A chain of conditions: constants where the phase is
/// one, else selections.
template <class T, class Spell>
void writePattern(SourceWriter &w, const std::string &type, const std::string &name, size_t taps,
                  const std::vector<T> &values, Spell spell) {
  w.open("TENON_FN static constexpr " + type + " " + name + "(int phase, int tap)");
  w.line("const int i = phase * " + std::to_string(taps) + " + tap;");
  std::string chosen = spell(values.back());
  for (size_t i = values.size() - 1; i-- > 0;)
    chosen = "i == " + std::to_string(i) + " ? " + spell(values[i]) + " : " + chosen;
  w.line("return i < 0 ? 0 : " + chosen + ";");
  w.close();
}
std::string writeRepeat(const Repeat &r, int64_t extent, const std::string &name, StepWriter &out) {
  SourceWriter &w = out.declarations();
  w.open("struct " + name);
  w.line("static constexpr int taps = " + std::to_string(r.taps) +
         ", period = " + std::to_string(r.period) + ", advance = " + std::to_string(r.advance) +
         ", extent = " + std::to_string(extent) + ";");
  writePattern(w, "int", "delta", r.taps, r.deltas, [](int64_t v) { return std::to_string(v); });
  writePattern(w, "float", "weight_of", r.taps, r.weights,
               [](double v) { return cppScalar(Element::F32, v); });
  w.close("};");
  return "cuda::resize_repeated<" + name + ">{}";
}

/// Declares the axis of dimension d, whose outputs repeat where that is given, and returns an
/// expression that makes one.
std::string axisText(const Operation &op, unsigned d, StepWriter &out,
                     const Repeat *repeat = nullptr) {
  if (!isResampled(op, d))
    return "cuda::resize_same{}";
  if (!hasKnownTable(op, d)) {
    const OpenTable t = openTable(op, d, out);
    const std::string type = tableType(op, t.taps);
    std::string name = "axis" + std::to_string(d);
    out.include("cuda/resize/tables.cuh");
    out.code().line("const cuda::resize_table<" + type + "> " + name + "{" + t.indices + ", " +
                    t.weights + "};");
    out.code().line("TENON_CHECK(to.launch<V>(cuda::resize_tables(" + t.axis + ", " + t.indices +
                    ", " + t.weights + ")));");
    return name;
  }
  const std::string name = out.name() + "_axis" + std::to_string(d);
  if (repeat)
    return writeRepeat(*repeat, op.operand(0)->type().dim(d).constant(), name, out);
  const auto [taps, indices, weights] = resizeTable(op, d);
  SourceWriter &w = out.declarations();
  w.open("struct " + name);
  w.line("static constexpr int taps = " + std::to_string(taps) + ";");
  writeLookup(w, "int", "index", taps, indices, [](int64_t v) { return std::to_string(v); });
  const Element e = weightsOfResize(op);
  if (taps > 1)
    writeLookup(w, cppElement(e).str(), "weight", taps, weights,
                [e](double v) { return cppScalar(e, v); });
  else
    w.line("TENON_DEVICE float weight(int, int) const { return 1; }");
  w.close("};");
  return name + "{}";
}

void emitCall(const GroupQuery &in, StepWriter &out, llvm::StringRef kernel,
              llvm::ArrayRef<std::string> axes, const std::string &config,
              StepWriter::Change change, llvm::ArrayRef<int> places) {
  const std::string body = declareOperands(out, in.form, in.form.anchorInputs[0], change, places);
  std::vector<std::string> arguments = {config, "x"};
  arguments.insert(arguments.end(), axes.begin(), axes.end());
  arguments.insert(arguments.end(), {"outs", "ins", body});
  launch(out, kernel, arguments);
}

struct Resize {
  static constexpr llvm::StringLiteral id = "resize", summary = "resampling of height and width";
  struct Problem {
    GroupQuery in;
    ConvProblem plane;
  };
  using Schedule = WindowSchedule;
  static unsigned columnsOf(const Problem &p) { return p.plane.spatialRank == 1 ? 2 : 3; }

  static Result<Problem> match(const GroupQuery &in) {
    return matchAny(in)
        .andThen([&] { return resamplesPlane(*in.form.anchor); })
        .andThen([&] { return isPlainBody(in.form.body); })
        .andThen([&]() -> Result<Problem> {
          return Problem{in, planeOf(*in.form.anchor)};
        });
  }
  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    if (runsAlong(p.in.form, p.plane) == 3) {
      // Columns that repeat are loaded in runs, too; others are gathered one by one, but stored so.
      const auto repeat = repeatOf(*p.in.form.anchor, columnsOf(p));
      const int64_t longest = std::min<int64_t>(8, vectorLength(p.in.form));
      for (int64_t vector = longest; vector > 1; vector /= 2)
        if (vector == longest || (repeat && isRun(*repeat, vector)))
          out.push_back({3, vector});
    }
    Schedule::candidates(p.in.form, p.plane, out);
  }
  static Result<> legal(const Problem &, const Schedule &) { return Accepted{}; }
  static double microseconds(const Problem &p, const Schedule &s) {
    constexpr double kThread = 60; // assumed
    return microsecondsOf(p.in, double(s.vector), s.vector > 1 ? 0.2 : 0.1, kThread);
  }
  static int64_t scratch(const Problem &p, const Schedule &) {
    return resizeScratch(*p.in.form.anchor);
  }

  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    const Operation &op = *p.in.form.anchor;
    out.include("cuda/resize/kernel.cuh");
    StepWriter::Config cfg(out, "config", "cuda::window_defaults");
    cfg.extent("batch", p.plane.batch).extent("channels", op.result()->type().dim(1));
    cfg.extent("out_h", p.plane.outHeight).extent("out_w", p.plane.outWidth);
    for (const auto &[key, value] : membersOf(s))
      cfg.number(key, value);
    const auto plane = [&](const Strides &x) { return inPlane(x, p.plane); };
    cfg.flag("whole_runs",
             areResultsWhole(out, p.in.form, plane, unsigned(s.along),
                             s.along == 1 ? op.result()->type().dim(1) : p.plane.outWidth,
                             s.vector));
    const std::string config = cfg.finish();
    const bool flat = p.plane.spatialRank == 1;
    // Few elements of a row are chosen from faster than looked up.
    const auto repeatedRows = flat ? llvm::None : repeatOf(op, 2);
    const bool few = repeatedRows && repeatedRows->weights.size() <= kFewWeights;
    const std::string rows =
        flat ? "cuda::resize_same{}" : axisText(op, 2, out, few ? &*repeatedRows : nullptr);
    const auto repeat = s.along == 3 ? repeatOf(op, columnsOf(p)) : llvm::None;
    const std::string columns =
        axisText(op, columnsOf(p), out, repeat && isRun(*repeat, s.vector) ? &*repeat : nullptr);
    // Strides of the height that 1-d images do not have are never used.
    emitCall(p.in, out, "resize", {rows, columns}, config, plane, planePlaces(p.plane));
  }
};

struct ResizeAny {
  static constexpr llvm::StringLiteral id = "resize_any",
                                       summary = "resampling of any dimensions, one element per "
                                                 "thread";
  using Problem = GroupQuery;
  using Schedule = NoSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    return matchAny(in).andThen([&]() -> Result<Problem> { return in; });
  }
  static double microseconds(const Problem &in, const Schedule &) {
    return microsecondsOf(in, 1, 0.02, 0);
  }
  static int64_t scratch(const Problem &in, const Schedule &) {
    return resizeScratch(*in.form.anchor);
  }

  static void emit(const Problem &in, const Schedule &, StepWriter &out) {
    const Operation &op = *in.form.anchor;
    const unsigned rank = op.result()->type().rank();
    out.include("cuda/resize/any.cuh");
    StepWriter::Config cfg(out, "config");
    cfg.extents("space", in.form.body.space);
    const std::string config = cfg.finish();
    std::string axes;
    for (unsigned d = 0; d < rank; ++d)
      axes += (d ? ", " : "") + axisText(op, d, out);
    emitCall(
        in, out, "resize_any",
        {"pack(" + axes + ")",
         cppScalar(op.operand(0)->type().element(), op.floatAttr("extrapolation"))},
        config, [](const Strides &x) { return x; }, inPlaceDims(rank));
  }
};

} // namespace

const Tactic &kResize = kTacticOf<Resize>;
const Tactic &kResizeAny = kTacticOf<ResizeAny>;

} // namespace tenon::cuda
