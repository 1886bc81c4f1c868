// Defines the tactics that are a map with a special view as its first operand: `gather` (elements
// picked by indices, runtime/cuda/gather/kernel.cuh), `pad_border` (pads that repeat, mirror or
// continue the tensor, runtime/cuda/gather/bordered.cuh; constant pads are accesses and belong to
// `map`), and `shape_of` (extents as values, runtime/cuda/gather/shape_values.cuh).
#include "codegen/core/TacticOf.h"
#include "codegen/core/Work.h"
#include "codegen/cuda/shared/Common.h"
#include "codegen/forms/AnchorForms.h"

namespace tenon::cuda {
namespace {

double microsecondsOf(const GroupQuery &in) {
  const Work w = workOf(*in.form.group);
  const Type y = in.form.anchor->result()->type();
  Effort e;
  // Of the tensor picked from, no more is read than is written.
  e.bytes = std::min(double(w.bytes), 3.0 * double(byteSize(y.element(), y.upperElements())));
  e.blocks = double(y.upperElements()) / 1024;
  return microseconds(in.level, e);
}

//===----------------------------------------------------------------------===//
// gather
//===----------------------------------------------------------------------===//

struct Gather {
  static constexpr llvm::StringLiteral id = "gather",
                                       summary = "elements picked by indices along one dimension";
  static constexpr bool takesPacked = true;
  struct Problem {
    GroupQuery in;
    GatherForm g;
  };
  using Schedule = VectorSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    return matchGather(in)
        .andThen([&] { return fitsInt(in.form); })
        .andThen([&]() -> Result<Problem> {
          return Problem{in, gatherForm(in.form)};
        });
  }
  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    out.push_back({vectorLength(p.in.form)});
  }
  static Result<> legal(const Problem &, const Schedule &) { return Accepted{}; }
  static double microseconds(const Problem &p, const Schedule &) { return microsecondsOf(p.in); }

  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    const GroupForm &form = p.in.form;
    const GatherForm &g = p.g;
    out.include("cuda/gather/kernel.cuh");
    const MapKernel kernel = mapKernel(out, form, g.nest.extents, g.nest.outputs, s.vector);
    const std::string body = out.body(form.body, {form.anchor->result()->type().element()});
    SourceWriter &w = out.code();
    w.line("const auto x = cuda::make_gathered_view(" +
           out.view(form.anchorInputs[0].inputs[0].source, g.from) + ", " +
           out.view(form.anchorInputs[1].inputs[0].source, g.indices) + ", " +
           single(out, g.stride) + ", " + single(out, g.extent) + ");");
    w.line("const auto outs = " + out.outputs(form, g.nest) + ";");
    w.line("const auto ins = " + packWithFirst("x", out.inputs(form.body, g.nest)) + ";");
    launch(out, kernel.name, {kernel.config, "outs", "ins", body});
  }
};

//===----------------------------------------------------------------------===//
// pad_border
//===----------------------------------------------------------------------===//

struct PadBorder {
  static constexpr llvm::StringLiteral id = "pad_border",
                                       summary = "pads that repeat, mirror or continue the tensor";
  static constexpr bool takesPacked = true;
  using Problem = GroupQuery;
  using Schedule = NoSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    return matchBorderPad(in).andThen([&]() -> Result<Problem> {
      if (in.form.anchor->result()->type().rank() == 0)
        return Refusal{"a scalar", ""};
      return in;
    });
  }
  static double microseconds(const Problem &in, const Schedule &) { return microsecondsOf(in); }

  static void emit(const Problem &in, const Schedule &, StepWriter &out) {
    const GroupForm &form = in.form;
    const Operation &op = *form.anchor;
    const Access &x = form.anchorInputs[0].inputs[0];
    const llvm::ArrayRef<Dim> extents = op.operand(0)->type().shape();
    const Strides s = stridesOf(x, unsigned(extents.size()));
    out.include("cuda/gather/bordered.cuh");
    const MapKernel kernel = mapKernel(out, form);
    const std::string body = out.body(form.body, {op.result()->type().element()});
    SourceWriter &w = out.code();
    w.line("const auto x = cuda::make_bordered_view<cuda::border_" + op.wordAttr("mode").str() +
           ">(" + out.pointer(x.source, s.offset) + ", " + out.dims().list(s.strides) + ", " +
           out.dims().list(op.dimsAttr("low")) + ", " + out.dims().list(extents) + ");");
    w.line("const auto outs = " + out.outputs(form) + ";");
    w.line("const auto ins = " + packWithFirst("x", out.inputs(form.body)) + ";");
    launch(out, kernel.name, {kernel.config, "outs", "ins", body});
  }
};

//===----------------------------------------------------------------------===//
// shape_of
//===----------------------------------------------------------------------===//

struct ShapeOf {
  static constexpr llvm::StringLiteral id = "shape_of", summary = "extents as values";
  using Problem = GroupQuery;
  using Schedule = NoSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    return matchShapeOf(in).andThen([&]() -> Result<Problem> { return in; });
  }
  static double microseconds(const Problem &in, const Schedule &) { return microsecondsOf(in); }

  static void emit(const Problem &in, const Schedule &, StepWriter &out) {
    const GroupForm &form = in.form;
    out.include("cuda/gather/shape_values.cuh");
    const MapKernel kernel = mapKernel(out, form);
    const std::string body = out.body(form.body, {Element::I64});
    SourceWriter &w = out.code();
    w.line("const auto x = cuda::make_shape_values(" +
           out.dims().list(form.anchor->operand(0)->type().shape()) + ");");
    w.line("const auto outs = " + out.outputs(form) + ";");
    w.line("const auto ins = " + packWithFirst("x", out.inputs(form.body)) + ";");
    launch(out, kernel.name, {kernel.config, "outs", "ins", body});
  }
};

} // namespace

const Tactic &kGather = kTacticOf<Gather>;
const Tactic &kPadBorder = kTacticOf<PadBorder>;
const Tactic &kShapeOf = kTacticOf<ShapeOf>;

} // namespace tenon::cuda
