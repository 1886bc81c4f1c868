// Defines the tactic `gather`: elements picked by indices along one dimension, as a map that reads
// through a gathered_view.
#include "codegen/cpu/Tactics.h"

#include "codegen/cpu/Operands.h"

namespace tenon::cpu {
namespace {

bool match(const TacticInput &in, std::string &why) {
  if (!matchAnchor(in, Op::Gather, why))
    return false;
  if (!in.form.anchorInputs[0].isPlainRead() || !in.form.anchorInputs[1].isPlainRead()) {
    why = "an operand computed in the group";
    return false;
  }
  return true;
}

void enumerate(const TacticInput &, llvm::SmallVectorImpl<Schedule> &out) {
  out.push_back({"gather", {}});
}

double cost(const TacticInput &in, const Schedule &) { return rooflineCost(in, 0.1); }

/// The body with both operands of the anchor as its first inputs, over the result's space.
ScalarProgram withOperands(const GroupForm &form) {
  const Operation &op = *form.anchor;
  const auto axis = unsigned(op.intAttr("axis"));
  const unsigned picked = op.operand(1)->type().rank();
  ScalarProgram p = form.body;
  Access x = form.anchorInputs[0].inputs[0], indices = form.anchorInputs[1].inputs[0];
  for (AccessDim &d : x.dims) // the axis is the view's business
    d.dim = d.dim == int(axis) ? -1 : d.dim > int(axis) ? d.dim + int(picked) - 1 : d.dim;
  for (AccessDim &d : indices.dims)
    d.dim = d.dim < 0 ? -1 : d.dim + int(axis);
  p.inputs.insert(p.inputs.begin(), {x, indices});
  return p;
}

void emit(const TacticInput &in, const Schedule &, StepWriter &out) {
  const GroupForm &form = in.form;
  const Operation &op = *form.anchor;
  const auto axis = unsigned(op.intAttr("axis"));
  const ScalarProgram all = withOperands(form);
  const LoopNest nest = loopNest(all, form.outputs);
  LoopNest rest = nest;
  rest.inputs.erase(rest.inputs.begin(), rest.inputs.begin() + 2);
  rest.inside.erase(rest.inside.begin(), rest.inside.begin() + 2);

  // Stride of the axis: where the read of x varies along it.
  const ScalarProgram &x = form.anchorInputs[0];
  const Dim stride = stridesOf(x.inputs[0], unsigned(x.space.size())).strides[axis];
  auto single = [&](Dim d) { return out.dims().list({d}) + ".head"; };
  out.include("cpu/map.h");
  const std::string body = out.body(form.body, {op.result()->type().element()});
  const std::string ins = out.inputs(form.body, rest);
  SourceWriter &w = out.code();
  w.line("const auto x = tenon::make_gathered_view(" +
         out.view(all.inputs[0].source, nest.inputs[0]) + ", " +
         out.view(all.inputs[1].source, nest.inputs[1]) + ", " + single(stride) + ", " +
         single(x.space[axis]) + ");");
  w.line("const auto outs = " + out.outputs(form, nest) + ";");
  w.line("const auto ins = pack(x" + (ins == "pack()" ? ")" : ", " + ins.substr(5)) + ";");
  w.line("cpu::map(" + out.dims().list(nest.extents) + ", outs, ins, " + body + ", *f.workers);");
}

} // namespace

const Tactic kGather = {"gather", "elements picked by indices along one dimension",
                        match,    enumerate,
                        cost,     nullptr,
                        nullptr,  emit};

} // namespace tenon::cpu
