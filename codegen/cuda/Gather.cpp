// Defines the tactics that are a map with a special view as its first operand: `gather` (elements
// picked by indices, runtime/cuda/gather.cuh), `pad_border` (pads that repeat, mirror or continue
// the tensor, runtime/cuda/bordered.cuh; constant pads are accesses and belong to `map`), and
// `shape_of` (extents as values, runtime/cuda/shape_values.cuh).
#include "codegen/cuda/Tactics.h"

#include "codegen/AnchorForms.h"
#include "codegen/Work.h"
#include "codegen/cuda/Common.h"

namespace tenon::cuda {
namespace {

double cost(const TacticInput &in, const Schedule &) {
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

bool matchIndexedGather(const TacticInput &in, std::string &why) {
  return holds(matchGather(in), why) && fitsInt(in.form, why);
}

void enumerateGather(const TacticInput &in, llvm::SmallVectorImpl<Schedule> &out) {
  out.push_back({"gather", {{"vector", vectorLength(in.form)}}});
}

void emitGather(const TacticInput &in, const Schedule &s, StepWriter &out) {
  const GroupForm &form = in.form;
  const GatherForm g = gatherForm(form);
  out.include("cuda/gather.cuh");
  const MapKernel kernel = mapKernel(out, form, g.nest.extents, g.nest.outputs, *s.get("vector"));
  const std::string body = out.body(form.body, {form.anchor->result()->type().element()});
  SourceWriter &w = out.code();
  w.line("const auto x = cuda::make_gathered_view(" +
         out.view(form.anchorInputs[0].inputs[0].source, g.from) + ", " +
         out.view(form.anchorInputs[1].inputs[0].source, g.indices) + ", " + single(out, g.stride) +
         ", " + single(out, g.extent) + ");");
  w.line("const auto outs = " + out.outputs(form, g.nest) + ";");
  w.line("const auto ins = " + packWithFirst("x", out.inputs(form.body, g.nest)) + ";");
  launch(out, kernel.name, {kernel.config, "outs", "ins", body});
}

//===----------------------------------------------------------------------===//
// pad_border
//===----------------------------------------------------------------------===//

bool matchPad(const TacticInput &in, std::string &why) {
  if (!holds(matchBorderPad(in), why))
    return false;
  if (in.form.anchor->result()->type().rank() == 0) {
    why = "a scalar";
    return false;
  }
  return true;
}

void enumeratePad(const TacticInput &, llvm::SmallVectorImpl<Schedule> &out) {
  out.push_back({"pad_border", {}});
}

void emitPad(const TacticInput &in, const Schedule &, StepWriter &out) {
  const GroupForm &form = in.form;
  const Operation &op = *form.anchor;
  const Access &x = form.anchorInputs[0].inputs[0];
  const llvm::ArrayRef<Dim> extents = op.operand(0)->type().shape();
  const Strides s = stridesOf(x, unsigned(extents.size()));
  out.include("cuda/bordered.cuh");
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

//===----------------------------------------------------------------------===//
// shape_of
//===----------------------------------------------------------------------===//

void enumerateShapeOf(const TacticInput &, llvm::SmallVectorImpl<Schedule> &out) {
  out.push_back({"shape_of", {}});
}

void emitShapeOf(const TacticInput &in, const Schedule &, StepWriter &out) {
  const GroupForm &form = in.form;
  out.include("cuda/shape_values.cuh");
  const MapKernel kernel = mapKernel(out, form);
  const std::string body = out.body(form.body, {Element::I64});
  SourceWriter &w = out.code();
  w.line("const auto x = cuda::make_shape_values(" +
         out.dims().list(form.anchor->operand(0)->type().shape()) + ");");
  w.line("const auto outs = " + out.outputs(form) + ";");
  w.line("const auto ins = " + packWithFirst("x", out.inputs(form.body)) + ";");
  launch(out, kernel.name, {kernel.config, "outs", "ins", body});
}

} // namespace

const Tactic kGather = {"gather",
                        "elements picked by indices along one dimension",
                        matchIndexedGather,
                        enumerateGather,
                        cost,
                        nullptr,
                        nullptr,
                        emitGather,
                        nullptr,
                        nullptr,
                        /*takesPacked=*/true};
const Tactic kPadBorder = {"pad_border",
                           "pads that repeat, mirror or continue the tensor",
                           matchPad,
                           enumeratePad,
                           cost,
                           nullptr,
                           nullptr,
                           emitPad,
                           nullptr,
                           nullptr,
                           /*takesPacked=*/true};
const Tactic kShapeOf = {
    "shape_of", "extents as values", matchShapeOf, enumerateShapeOf, cost, nullptr,
    nullptr,    emitShapeOf};

} // namespace tenon::cuda
