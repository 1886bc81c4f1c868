// Defines the tactics that are a map with a special view as its first operand: `gather` (elements
// picked by indices, runtime/cuda/gather.cuh), `pad_border` (pads that repeat, mirror or continue
// the tensor, runtime/cuda/bordered.cuh; constant pads are accesses and belong to `map`), and
// `shape_of` (extents as values, runtime/cuda/shape_values.cuh).
#include "codegen/cuda/Tactics.h"

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

/// Puts `x` before the views of a pack.
std::string withFirst(llvm::StringRef ins) {
  return ins == "pack()" ? "pack(x)" : "pack(x, " + ins.substr(5).str();
}

//===----------------------------------------------------------------------===//
// gather
//===----------------------------------------------------------------------===//

bool matchGather(const TacticInput &in, std::string &why) {
  if (!matchAnchor(in, Op::Gather, why) || !fitsInt(in.form, why))
    return false;
  if (!in.form.anchorInputs[0].isPlainRead() || !in.form.anchorInputs[1].isPlainRead()) {
    why = "an operand computed in the group";
    return false;
  }
  return true;
}

void enumerateGather(const TacticInput &in, llvm::SmallVectorImpl<Schedule> &out) {
  out.push_back({"gather", {{"vector", vectorLength(in.form)}}});
}

/// The body with both operands of the anchor as its first inputs, over the result's space.
ScalarProgram withOperands(const GroupForm &form) {
  const Operation &op = *form.anchor;
  const auto axis = int(op.intAttr("axis"));
  const auto picked = int(op.operand(1)->type().rank());
  ScalarProgram p = form.body;
  Access x = form.anchorInputs[0].inputs[0], indices = form.anchorInputs[1].inputs[0];
  for (AccessDim &d : x.dims) // the axis is the view's business
    d.dim = d.dim == axis ? -1 : d.dim > axis ? d.dim + picked - 1 : d.dim;
  for (AccessDim &d : indices.dims)
    d.dim = d.dim < 0 ? -1 : d.dim + axis;
  p.inputs.insert(p.inputs.begin(), {x, indices});
  return p;
}

void emitGather(const TacticInput &in, const Schedule &s, StepWriter &out) {
  const GroupForm &form = in.form;
  const Operation &op = *form.anchor;
  const auto axis = size_t(op.intAttr("axis"));
  const ScalarProgram all = withOperands(form);
  const LoopNest nest = loopNest(all, form.outputs);
  LoopNest rest = nest;
  rest.inputs.erase(rest.inputs.begin(), rest.inputs.begin() + 2);
  rest.inside.erase(rest.inside.begin(), rest.inside.begin() + 2);

  const ScalarProgram &x = form.anchorInputs[0];
  const Dim stride = stridesOf(x.inputs[0], unsigned(x.space.size())).strides[axis];
  auto single = [&](Dim d) { return out.dims().list({d}) + ".head"; };
  out.include("cuda/gather.cuh");
  const MapKernel kernel = mapKernel(out, form, nest.extents, nest.outputs, *s.get("vector"));
  const std::string body = out.body(form.body, {op.result()->type().element()});
  SourceWriter &w = out.code();
  w.line("const auto x = cuda::make_gathered_view(" +
         out.view(all.inputs[0].source, nest.inputs[0]) + ", " +
         out.view(all.inputs[1].source, nest.inputs[1]) + ", " + single(stride) + ", " +
         single(x.space[axis]) + ");");
  w.line("const auto outs = " + out.outputs(form, nest) + ";");
  w.line("const auto ins = " + withFirst(out.inputs(form.body, rest)) + ";");
  launch(out, kernel.name, {kernel.config, "outs", "ins", body});
}

//===----------------------------------------------------------------------===//
// pad_border
//===----------------------------------------------------------------------===//

bool matchPad(const TacticInput &in, std::string &why) {
  if (!matchAnchor(in, Op::Pad, why))
    return false;
  if (in.form.anchor->wordAttr("mode", "constant") == "constant") {
    why = "a pad with a value known only at run time";
    return false;
  }
  if (!in.form.anchorInputs[0].isPlainRead() || in.form.anchor->result()->type().rank() == 0) {
    why = "an operand computed in the group";
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
  w.line("const auto ins = " + withFirst(out.inputs(form.body)) + ";");
  launch(out, kernel.name, {kernel.config, "outs", "ins", body});
}

//===----------------------------------------------------------------------===//
// shape_of
//===----------------------------------------------------------------------===//

bool matchShapeOf(const TacticInput &in, std::string &why) {
  if (!matchAnchor(in, Op::ShapeOf, why))
    return false;
  if (in.form.anchor->operand(0)->type().rank() == 0) {
    why = "the shape of a scalar has no elements";
    return false;
  }
  return true;
}

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
  w.line("const auto ins = " + withFirst(out.inputs(form.body)) + ";");
  launch(out, kernel.name, {kernel.config, "outs", "ins", body});
}

} // namespace

const Tactic kGather = {"gather",
                        "elements picked by indices along one dimension",
                        matchGather,
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
