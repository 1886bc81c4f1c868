// Defines the tactics of resize: `resize` (two resampled dimensions, lanes along the channels) and
// `resize_direct` (any number, any element type). Which elements an output reads, and with what
// weights, stands in tables: computed here, or filled at run time where extents are open.
#include "codegen/core/LoopNest.h"
#include "codegen/core/TacticOf.h"
#include "codegen/core/TargetFamily.h"
#include "codegen/cpu/shared/Operands.h"
#include "codegen/forms/ResizeForm.h"

namespace tenon::cpu {
namespace {

/// The dimensions as the kernel takes them: (n, c, h, w), h and w resampled.
struct ResizePlane {
  MergedDims outer; // n and c
  llvm::SmallVector<unsigned, 2> resampled;

  Strides operator()(const Strides &s) const {
    Strides r = outer(s);
    Context &c = *s.offset.node()->context;
    r.strides.insert(r.strides.begin(), 2 - r.strides.size(), c.dim(0));
    r.strides.append(2 - resampled.size(), c.dim(0));
    for (unsigned d : resampled)
      r.strides.push_back(s.strides[d]);
    return r;
  }
  llvm::SmallVector<int, 6> placeOf() const {
    llvm::SmallVector<int, 6> places;
    const int first = 2 - int(outer.extents.size());
    for (int place : outer.placeOf)
      places.push_back(place < 0 ? -1 : first + place);
    for (size_t i = 0; i < resampled.size(); ++i)
      places[resampled[i]] = 4 - int(resampled.size()) + int(i);
    return places;
  }
};

Result<ResizePlane> plane(const GroupQuery &in) {
  const GroupForm &form = in.form;
  const Operation &op = *form.anchor;
  ResizePlane p;
  llvm::SmallVector<unsigned, 6> others;
  for (unsigned d = 0; d < op.result()->type().rank(); ++d)
    if (isResampled(op, d))
      p.resampled.push_back(d);
    else
      others.push_back(d);
  if (p.resampled.size() > 2)
    return Refusal{"more than two resampled dimensions", ""};
  std::vector<Strides> operands = bodyStrides(form);
  const ScalarProgram &x = form.anchorInputs[0];
  for (const Access &a : x.inputs)
    operands.push_back(stridesOf(a, unsigned(x.space.size())));
  llvm::SmallVector<bool, 6> kept = indexedDims(form.body);
  const auto before = indexedDims(x);
  for (size_t d = 0; d < kept.size(); ++d)
    kept[d] = kept[d] || before[d];
  p.outer = mergeDims(form.body.space, byStride(others, operands[0]), operands, kept);
  if (p.outer.extents.size() > 2)
    return Refusal{"more than two dimensions beside the resampled ones that do not merge", ""};
  return p;
}

/// `static constexpr <type> <name>[] = {…};` in lines of bounded length.
template <class T, class Spell>
void writeTable(SourceWriter &w, llvm::StringRef type, const std::string &name,
                const std::vector<T> &values, Spell spell) {
  w.open("static constexpr " + type.str() + " " + name + "[] =");
  std::string line;
  for (size_t i = 0; i < values.size(); ++i) {
    line += spell(values[i]) + (i + 1 < values.size() ? ", " : "");
    if (line.size() > 100 || i + 1 == values.size()) {
      w.line(line);
      line.clear();
    }
  }
  w.close("};");
}

/// Writes the table of dimension d and returns the axis expression.
std::string axisText(const Operation &op, unsigned d, StepWriter &out) {
  if (!isResampled(op, d))
    return "cpu::resize_same{}";
  if (!hasKnownTable(op, d)) {
    const OpenTable t = openTable(op, d, out);
    const std::string type = tableType(op, t.taps);
    std::string name = "axis" + std::to_string(d);
    out.include("common/resize_axis.h");
    out.code().line("const cpu::resize_table<" + type + "> " + name + "{" + t.indices + ", " +
                    t.weights + "};");
    out.code().line("fill_resize_table(" + t.axis + ", " + t.indices + ", " + t.weights + ");");
    return name;
  }
  const auto [taps, indices, weights] = resizeTable(op, d);
  const std::string name = out.name() + "_axis" + std::to_string(d);
  writeTable(out.declarations(), "int32_t", name, indices,
             [](int64_t v) { return std::to_string(v); });
  if (taps == 1)
    return "cpu::resize_table<1>{" + name + ", nullptr}";
  const Element e = weightsOfResize(op);
  writeTable(out.declarations(), cppElement(e), name + "_weights", weights,
             [e](double v) { return cppScalar(e, v); });
  return "cpu::resize_table<" + tableType(op, taps) + ">{" + name + ", " + name + "_weights}";
}

/// The dimension along which lanes run where the channels are not neighbours: the last one
/// resampled, if its elements are, floats of 32 bits hold them and a line fits on the stack.
llvm::Optional<unsigned> linedDim(const GroupQuery &in, const ResizePlane &p) {
  const Operation &op = *in.form.anchor;
  const ScalarProgram &x = in.form.anchorInputs[0];
  if (in.level.simdWidth <= 1 || !in.level.family->facts.hosted || p.resampled.empty() ||
      x.inputs.size() != 1)
    return llvm::None; // small stacks hold no line
  if (computeElement(op.operand(0)->type().element()) != Element::F32 ||
      !llvm::all_of(p.resampled, [&](unsigned d) { return hasKnownTable(op, d); }))
    return llvm::None;
  const unsigned d = p.resampled.back();
  const Dim extent = x.space[d];
  constexpr int64_t longest = 1 << 13;
  if (!extent.isConstant() || extent.upper() > longest ||
      !stridesOf(x.inputs[0], unsigned(x.space.size())).strides[d].isConstant(1))
    return llvm::None;
  return d;
}

/// As axisText, by blocks of `width` outputs (resize_blocks).
std::string blocksText(const Operation &op, unsigned d, unsigned width, StepWriter &out) {
  const ResizeTable table = resizeTable(op, d);
  const size_t taps = table.taps, outputs = table.indices.size() / taps;
  std::vector<int64_t> first, places;
  std::vector<double> weights;
  int64_t farthest = 0;
  for (size_t begin = 0; begin < outputs; begin += width) {
    const size_t end = std::min(outputs, begin + width);
    const auto from = table.indices.begin();
    const int64_t least = *std::min_element(from + begin * taps, from + end * taps);
    first.push_back(least);
    for (size_t j = 0; j < taps; ++j)
      for (size_t o = begin; o < begin + width; ++o) {
        places.push_back(o < end ? table.indices[o * taps + j] - least : 0);
        weights.push_back(o < end ? table.weights[o * taps + j] : 0);
        farthest = std::max(farthest, places.back());
      }
  }
  const std::string name = out.name() + "_axis" + std::to_string(d);
  const auto integer = [](int64_t v) { return std::to_string(v); };
  writeTable(out.declarations(), "int32_t", name + "_first", first, integer);
  writeTable(out.declarations(), "int32_t", name, places, integer);
  if (taps > 1)
    writeTable(out.declarations(), "float", name + "_weights", weights,
               [](double v) { return cppScalar(Element::F32, v); });
  return "cpu::resize_blocks<" + std::to_string(taps) + ", " +
         (farthest < 2 * int64_t(width) ? "true" : "false") + ">{" + name + "_first, " + name +
         ", " + (taps > 1 ? name + "_weights" : "nullptr") + "}";
}

struct Resize {
  static constexpr llvm::StringLiteral id = "resize",
                                       summary = "resampling of two dimensions, lanes along "
                                                 "channels or along rows";
  struct Problem {
    GroupQuery in;
    ResizePlane plane;
    llvm::Optional<unsigned> lined; // the dimension of lanes, where they run along rows
  };
  using Schedule = NoSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    return matchResize(in)
        .andThen([&] { return resamplesInside(*in.form.anchor); })
        .andThen([&]() -> Result<Problem> {
          auto p = plane(in);
          if (!p)
            return std::move(p).refusal();
          const auto lined = linedDim(in, *p);
          return Problem{in, *std::move(p), lined};
        });
  }

  static int64_t scratch(const Problem &p, const Schedule &) {
    return resizeScratch(*p.in.form.anchor);
  }

  static double microseconds(const Problem &p, const Schedule &) {
    return rooflineCost(p.in, 0.15);
  }

  static void emit(const Problem &problem, const Schedule &, StepWriter &out) {
    const GroupForm &form = problem.in.form;
    const Operation &op = *form.anchor;
    Context &c = op.result()->type().context();
    const ResizePlane &p = problem.plane;
    auto outer = [&](size_t i) {
      const size_t missing = 2 - p.outer.extents.size();
      return i < missing ? c.dim(1) : p.outer.extents[i - missing];
    };
    auto resampled = [&](size_t i) {
      const size_t missing = 2 - p.resampled.size();
      return i < missing ? c.dim(1) : form.body.space[p.resampled[i - missing]];
    };
    auto axis = [&](size_t i) {
      const size_t missing = 2 - p.resampled.size();
      return i < missing ? std::string("cpu::resize_same{}")
                         : axisText(op, p.resampled[i - missing], out);
    };
    out.include("cpu/resize.h");
    StepWriter::Config cfg(out, "config", "cpu::resize_defaults");
    cfg.extent("batch", outer(0)).extent("channels", outer(1));
    cfg.extent("out_h", resampled(0)).extent("out_w", resampled(1));
    const Element e = computeElement(op.operand(0)->type().element());
    if (bitWidth(e) == 64)
      cfg.type("lanes", lanesType(lanesFor(problem.in.level, e)));
    if (problem.lined)
      cfg.extent("in_w", form.anchorInputs[0].space[*problem.lined]);
    const std::string config = cfg.finish();
    const auto places = p.placeOf();
    const std::string rows = axis(0);
    const std::string columns =
        problem.lined ? blocksText(op, *problem.lined, lanesFor(problem.in.level, e), out)
                      : axis(1);
    const std::string x = operandView(out, form.anchorInputs[0], p, places, "prologue");
    const std::string body = out.body(form.body, {op.result()->type().element()});
    SourceWriter &w = out.code();
    w.line("const auto x = " + x + ";");
    w.line("const auto outs = " + out.outputs(form, p) + ";");
    w.line("const auto ins = " + inputsIn(out, form.body, p, places) + ";");
    w.line("cpu::resize(" + config + ", x, " + rows + ", " + columns + ", outs, ins, " + body +
           ", *f.workers);");
  }
};

struct ResizeDirect {
  static constexpr llvm::StringLiteral id = "resize_direct",
                                       summary =
                                           "resampling of any dimensions, one element at a time";
  using Problem = GroupQuery;
  using Schedule = NoSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    return matchResize(in).andThen([&] { return Result<Problem>(in); });
  }

  static int64_t scratch(const Problem &p, const Schedule &) {
    return resizeScratch(*p.form.anchor);
  }

  static double microseconds(const Problem &p, const Schedule &) { return directCost(p); }

  static void emit(const Problem &p, const Schedule &, StepWriter &out) {
    const GroupForm &form = p.form;
    const Operation &op = *form.anchor;
    const auto rank = unsigned(form.body.space.size());
    const Element e = op.operand(0)->type().element();
    out.include("cpu/resize_direct.h");
    std::string axes;
    for (unsigned d = 0; d < rank; ++d)
      axes += (d ? ", " : "") + axisText(op, d, out);
    auto same = [](const Strides &s) { return s; };
    const std::string x =
        operandView(out, form.anchorInputs[0], same, inPlaceDims(rank), "prologue");
    const std::string body = out.body(form.body, {op.result()->type().element()});
    SourceWriter &w = out.code();
    w.line("const auto x = " + x + ";");
    w.line("const auto outs = " + out.outputs(form) + ";");
    w.line("const auto ins = " + out.inputs(form.body) + ";");
    w.line("cpu::resize_direct<" + cppElement(computeElement(e)).str() + ">(" +
           out.dims().list(form.body.space) + ", x, pack(" + axes + "), " +
           cppScalar(e, op.floatAttr("extrapolation")) + ", outs, ins, " + body + ", *f.workers);");
  }
};

} // namespace

const Tactic &kResize = kTacticOf<Resize>;
const Tactic &kResizeDirect = kTacticOf<ResizeDirect>;

} // namespace tenon::cpu
