// Implements the common reading of anchors.
#include "codegen/forms/AnchorForms.h"

#include "codegen/forms/ReductionForm.h"

#include <algorithm>

namespace tenon {

//===----------------------------------------------------------------------===//
// reduce
//===----------------------------------------------------------------------===//

Result<> matchFold(const GroupQuery &in) {
  if (auto anchor = matchAnchor(in, Op::Reduce); !anchor)
    return anchor;
  for (const ScalarProgram &p : in.form.anchorInputs)
    if (auto unbounded = isUnbounded(p); !unbounded)
      return unbounded;
  return Accepted{};
}

Result<> matchReduce(const GroupQuery &in) {
  return matchFold(in).andThen([&]() -> Result<> {
    if (!reduction(in.form).splits)
      return Refusal{"the combiner mixes elements and accumulators", ""};
    return Accepted{};
  });
}

//===----------------------------------------------------------------------===//
// pool
//===----------------------------------------------------------------------===//

llvm::StringRef poolingKind(const Operation &pool) {
  if (pool.wordAttr("kind") == "max")
    return "pooling_max";
  return pool.boolAttr("count_include_pad") ? "pooling_mean_padded" : "pooling_mean";
}

Element poolingAccumulator(const Operation &pool) {
  return computeElement(pool.operand(0)->type().element());
}

void writeWindow(StepWriter::Config &config, const ConvProblem &p) {
  config.extent("kernel_h", p.kernelH).extent("kernel_w", p.kernelW);
  config.extent("stride_h", p.strideH).extent("stride_w", p.strideW);
  config.extent("dilation_h", p.dilationH).extent("dilation_w", p.dilationW);
  config.extent("pad_top", p.padTop).extent("pad_left", p.padLeft);
}

void writeDepth(StepWriter::Config &config, const ConvProblem &p) {
  config.extent("out_d", p.outDepth).extent("in_d", p.inDepth).extent("kernel_d", p.kernelD);
  config.extent("stride_d", p.strideD).extent("dilation_d", p.dilationD);
  config.extent("pad_front", p.padFront);
}

void writePooling(StepWriter::Config &config, const Operation &pool, const ConvProblem &p) {
  const Ints &pads = pool.intsAttr("pads");
  const auto spatial = size_t(p.spatialRank);
  config.extent("batch", p.batch).extent("channels", pool.operand(0)->type().dim(1));
  config.extent("out_h", p.outHeight).extent("out_w", p.outWidth);
  config.extent("in_h", p.inHeight).extent("in_w", p.inWidth);
  writeWindow(config, p);
  config.extent("pad_bottom", pads.empty() || spatial == 1 ? 0 : pads[2 * spatial - 2]);
  config.extent("pad_right", pads.empty() ? 0 : pads[2 * spatial - 1]);
}

//===----------------------------------------------------------------------===//
// gather, pad, shape_of, topk
//===----------------------------------------------------------------------===//

Result<> matchGather(const GroupQuery &in) {
  if (auto anchor = matchAnchor(in, Op::Gather); !anchor)
    return anchor;
  if (!in.form.anchorInputs[0].isPlainRead() || !in.form.anchorInputs[1].isPlainRead())
    return Refusal{"an operand computed in the group", ""};
  return Accepted{};
}

GatherForm gatherForm(const GroupForm &form) {
  const Operation &op = *form.anchor;
  const auto axis = int(op.intAttr("axis"));
  const auto picked = int(op.operand(1)->type().rank());
  const ScalarProgram &from = form.anchorInputs[0];
  // The nest of the body with both operands as its first inputs, over the result's space.
  Access x = from.inputs[0], indices = form.anchorInputs[1].inputs[0];
  for (AccessDim &d : x.dims)
    d.dim = d.dim == axis ? -1 : d.dim > axis ? d.dim + picked - 1 : d.dim;
  for (AccessDim &d : indices.dims)
    d.dim = d.dim < 0 ? -1 : d.dim + axis;
  ScalarProgram all = form.body;
  all.inputs.insert(all.inputs.begin(), {x, indices});

  GatherForm out;
  out.nest = loopNest(all, form.outputs);
  out.from = out.nest.inputs[0];
  out.indices = out.nest.inputs[1];
  out.nest.inputs.erase(out.nest.inputs.begin(), out.nest.inputs.begin() + 2);
  out.nest.inside.erase(out.nest.inside.begin(), out.nest.inside.begin() + 2);
  out.stride = stridesOf(from.inputs[0], unsigned(from.space.size())).strides[size_t(axis)];
  out.extent = from.space[size_t(axis)];
  return out;
}

Result<> matchBorderPad(const GroupQuery &in) {
  if (auto anchor = matchAnchor(in, Op::Pad); !anchor)
    return anchor;
  if (in.form.anchor->wordAttr("mode", "constant") == "constant")
    return Refusal{"a pad with a value known only at run time", ""};
  if (!in.form.anchorInputs[0].isPlainRead())
    return Refusal{"an operand computed in the group", ""};
  return Accepted{};
}

Result<> matchShapeOf(const GroupQuery &in) {
  if (auto anchor = matchAnchor(in, Op::ShapeOf); !anchor)
    return anchor;
  if (in.form.anchor->operand(0)->type().rank() == 0)
    return Refusal{"the shape of a scalar has no elements", ""};
  return Accepted{};
}

Strides AxisLast::operator()(const Strides &s) const {
  Strides r = s;
  r.strides.erase(r.strides.begin() + axis);
  r.strides.push_back(s.strides[axis]);
  return r;
}

AxisLast axisLast(Type x, unsigned axis) {
  AxisLast out{axis, {}, {}};
  for (unsigned d = 0; d < x.rank(); ++d) {
    out.placeOf.push_back(d == axis ? int(x.rank()) - 1 : int(out.others.size()));
    if (d != axis)
      out.others.push_back(x.dim(d));
  }
  return out;
}

} // namespace tenon
