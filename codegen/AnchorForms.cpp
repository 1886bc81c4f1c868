// Implements the common reading of anchors.
#include "codegen/AnchorForms.h"

#include "codegen/Reduction.h"
#include "ir/ResizeTaps.h"

#include <algorithm>

namespace tenon {

//===----------------------------------------------------------------------===//
// reduce
//===----------------------------------------------------------------------===//

bool matchFold(const TacticInput &in, std::string &why) {
  return matchAnchor(in, Op::Reduce, why) &&
         llvm::all_of(in.form.anchorInputs,
                      [&](const ScalarProgram &p) { return isUnbounded(p, why); });
}

bool matchReduce(const TacticInput &in, std::string &why) {
  if (!matchFold(in, why))
    return false;
  if (!reduction(in.form).splits) {
    why = "the combiner mixes elements and accumulators";
    return false;
  }
  return true;
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

void writePooling(StepWriter::Config &config, const Operation &pool, const ConvProblem &p) {
  const Ints &pads = pool.intsAttr("pads");
  const auto spatial = size_t(p.spatialRank);
  config.extent("batch", p.batch).extent("channels", pool.operand(0)->type().dim(1));
  config.extent("out_h", p.outHeight).extent("out_w", p.outWidth);
  config.extent("in_h", p.inHeight).extent("in_w", p.inWidth);
  writeWindow(config, p);
  config.extent("pad_bottom", pads.empty() || spatial == 1 ? 0 : pads[spatial]);
  config.extent("pad_right", pads.empty() ? 0 : pads[2 * spatial - 1]);
}

//===----------------------------------------------------------------------===//
// resize
//===----------------------------------------------------------------------===//

bool isResampled(const Operation &resize, unsigned d) {
  const Dim from = resize.operand(0)->type().dim(d), to = resize.result()->type().dim(d);
  return from != to || !resizeAxis(resize, d, from.upper(), to.upper()).isIdentity();
}

bool matchResize(const TacticInput &in, std::string &why) {
  if (!matchAnchor(in, Op::Resize, why) || !isUnbounded(in.form.anchorInputs[0], why))
    return false;
  const Operation &op = *in.form.anchor;
  const Type x = op.operand(0)->type(), y = op.result()->type();
  for (unsigned d = 0; d < x.rank(); ++d)
    if (isResampled(op, d) && (!x.dim(d).isConstant() || !y.dim(d).isConstant())) {
      why = "dimension " + std::to_string(d) +
            " is resampled and known only at run time; bind it with --bind";
      return false;
    }
  return true;
}

bool resamplesInside(const Operation &resize, std::string &why) {
  if (resize.wordAttr("coordinates") == "tf_crop_and_resize")
    why = "a region that may reach outside";
  else if (resize.wordAttr("mode") != "nearest" && !isFloat(resize.operand(0)->type().element()))
    why = "integers are weighed";
  else
    return true;
  return false;
}

Element weightsOfResize(const Operation &resize) {
  return isFloat(resize.result()->type().element()) ? Element::F32 : Element::F64;
}

ResizeTable resizeTable(const Operation &resize, unsigned d) {
  const ResizeAxis axis = resizeAxis(resize, d, resize.operand(0)->type().dim(d).constant(),
                                     resize.result()->type().dim(d).constant());
  ResizeTable table;
  std::vector<ResizeTaps> rows;
  for (int64_t i = 0; i < axis.out; ++i) {
    rows.push_back(resizeTaps(resize, axis, i));
    if (axis.isOutside(i))
      rows.back().index[0] = -1;
    table.taps = std::max(table.taps, rows.back().index.size());
  }
  for (const ResizeTaps &row : rows)
    for (size_t t = 0; t < table.taps; ++t) {
      table.indices.push_back(t < row.index.size() ? row.index[t] : 0);
      table.weights.push_back(t < row.index.size() ? row.weight[t] : 0);
    }
  return table;
}

//===----------------------------------------------------------------------===//
// gather, pad, shape_of, topk
//===----------------------------------------------------------------------===//

bool matchGather(const TacticInput &in, std::string &why) {
  if (!matchAnchor(in, Op::Gather, why))
    return false;
  if (!in.form.anchorInputs[0].isPlainRead() || !in.form.anchorInputs[1].isPlainRead()) {
    why = "an operand computed in the group";
    return false;
  }
  return true;
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

bool matchBorderPad(const TacticInput &in, std::string &why) {
  if (!matchAnchor(in, Op::Pad, why))
    return false;
  if (in.form.anchor->wordAttr("mode", "constant") == "constant") {
    why = "a pad with a value known only at run time";
    return false;
  }
  if (!in.form.anchorInputs[0].isPlainRead()) {
    why = "an operand computed in the group";
    return false;
  }
  return true;
}

bool matchShapeOf(const TacticInput &in, std::string &why) {
  if (!matchAnchor(in, Op::ShapeOf, why))
    return false;
  if (in.form.anchor->operand(0)->type().rank() == 0) {
    why = "the shape of a scalar has no elements";
    return false;
  }
  return true;
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
