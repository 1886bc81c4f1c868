// Implements the reading of the gates of squeeze-and-excitation.
#include "codegen/cuda/squeeze_excite/Problem.h"

#include "codegen/forms/ReductionForm.h"

namespace tenon::cuda {
namespace {

/// A product of one row an image with constant weights.
Result<ContractionProblem> readProduct(const GroupQuery &in) {
  return readContraction(in, [&](const Contraction &c) -> Result<> {
    if (auto rows = multipliesRows(c); !rows)
      return rows;
    if (c.transA)
      return Refusal{"rows that do not lie side by side", ""};
    if (!isFloat(c.b) || bitWidth(c.b) < 16 || computeElement(c.b) != Element::F32 ||
        computeElement(in.form.anchor->operand(0)->type().element()) != Element::F32)
      return Refusal{"operands that are not computed in f32", ""};
    return Accepted{};
  });
}

/// The constant by which the program multiplies what the anchor gives; None where it does more.
llvm::Optional<double> scaleOf(const ScalarProgram &p) {
  std::vector<llvm::Optional<double>> factors; // of the anchor's result, by node
  auto constant = [&](unsigned n) -> llvm::Optional<double> {
    const ScalarNode &node = p.nodes[n];
    if (node.kind != ScalarNode::Function || !node.op->is(Op::Const) || !isFloat(node.element))
      return llvm::None;
    return node.op->floatAttr("value");
  };
  auto times = [](llvm::Optional<double> factor, llvm::Optional<double> c) {
    return factor && c ? llvm::Optional<double>(*factor * *c) : llvm::None;
  };
  for (const ScalarNode &n : p.nodes) {
    llvm::Optional<double> factor;
    if (n.kind == ScalarNode::Anchor) {
      factor = 1;
    } else if (n.kind == ScalarNode::Function && n.op->is(Op::Cast) && isFloat(n.element) &&
               !n.op->boolAttr("rounds")) {
      factor = factors[n.operands[0]];
    } else if (n.kind == ScalarNode::Function && n.op->is(Op::Mul)) {
      factor = times(factors[n.operands[0]], constant(n.operands[1]));
      if (!factor)
        factor = times(factors[n.operands[1]], constant(n.operands[0]));
    } else if (n.kind == ScalarNode::Function && n.op->is(Op::Div)) {
      if (const auto divisor = constant(n.operands[1]))
        factor = times(factors[n.operands[0]], 1 / *divisor);
    }
    factors.push_back(factor);
  }
  return p.outputs.size() == 1 && p.inputs.empty() ? factors[p.outputs[0]] : llvm::None;
}

/// Without conversions to wider floats, which loading does anyway.
ScalarProgram asStored(const ScalarProgram &p) {
  unsigned n = p.outputs[0];
  while (p.nodes[n].kind == ScalarNode::Function && p.nodes[n].op->is(Op::Cast) &&
         p.nodes[n].element == Element::F32 &&
         computeElement(p.nodes[p.nodes[n].operands[0]].element) == Element::F32)
    n = p.nodes[n].operands[0];
  if (p.nodes[n].kind != ScalarNode::Input || p.inputs.size() != 1)
    return p;
  ScalarProgram stored;
  stored.space = p.space;
  stored.inputs = p.inputs;
  stored.nodes = {p.nodes[n]};
  stored.outputs = {0};
  return stored;
}

/// Sums over all dimensions but that of images and one more, scaled.
Result<> readMeans(const GroupForm &form, Gates &g) {
  const Operation &op = *form.anchor;
  if (!op.is(Op::Reduce) || op.numOperands() != 1 || op.numResults() != 1 ||
      op.floatsAttr("init")[0] != 0)
    return Refusal{"no sum of one tensor", ""};
  const ReductionForm r = reduction(form);
  const ScalarNode &step = r.combine.nodes[r.combine.outputs[0]];
  if (!r.splits || step.kind != ScalarNode::Function || !step.op->is(Op::Add))
    return Refusal{"another reduction than a sum", ""};
  const unsigned rank = unsigned(r.pre.space.size());
  llvm::SmallVector<unsigned, 4> kept;
  for (unsigned d = 0; d < rank; ++d)
    (llvm::is_contained(op.intsAttr("axes"), int64_t(d)) ? g.pixels : kept).push_back(d);
  if (kept.size() != 2 || g.pixels.empty())
    return Refusal{"not one mean for every channel of an image", ""};
  const auto scale = scaleOf(form.body);
  if (!scale)
    return Refusal{"sums that are not scaled by a constant", ""};
  g.scale = *scale;
  g.x = asStored(r.pre);
  g.image = kept[0];
  g.channel = kept[1];
  if (!g.x.isPlainRead())
    return Refusal{"means of something that is computed first", ""};
  if (!stridesOf(g.x.inputs[0], rank).strides[g.channel].isConstant(1))
    return Refusal{"the channels of a pixel do not lie side by side", ""};
  return Accepted{};
}

/// The map over the image, with the gates as results of an anchor.
Result<> readImage(const GroupQuery &in, Gates &g) {
  const ScalarProgram &body = in.form.body;
  if (auto plain = isPlainBody(body); !plain)
    return plain;
  const unsigned rank = unsigned(body.space.size());
  auto isImage = [&](const Access &a) { return a.source == g.x.inputs[0].source; };
  if (g.x.space.size() != rank || g.outputs() != g.channels() ||
      llvm::none_of(body.inputs, isImage))
    return Refusal{"gates of another image", ""};
  for (const OutputForm &o : in.form.outputs)
    if (!stridesOf(o, rank).strides[g.channel].isConstant(1))
      return Refusal{"the result lies otherwise than the image", ""};
  constexpr unsigned kGate = ~0u;
  ScalarProgram image;
  image.space = body.space;
  image.outputs = body.outputs;
  llvm::SmallVector<unsigned, 4> placeOf; // of inputs
  for (const Access &a : body.inputs) {
    if (a.source->argumentOf()) {
      placeOf.push_back(unsigned(image.inputs.size()));
      image.inputs.push_back(a);
      continue;
    }
    placeOf.push_back(kGate);
    for (const AccessDim &d : a.dims)
      if (d.dim >= 0 && d.dim != int(g.image) && d.dim != int(g.channel))
        return Refusal{"gates that vary within a channel", ""};
  }
  for (ScalarNode n : body.nodes) {
    if (n.kind == ScalarNode::Input && placeOf[n.index] == kGate) {
      n.kind = ScalarNode::Anchor;
      n.index = 0;
    } else if (n.kind == ScalarNode::Input) {
      n.index = placeOf[n.index];
    }
    image.nodes.push_back(n);
  }
  g.gated = std::move(image);
  return Accepted{};
}

} // namespace

Result<Gates> readGates(const GroupQuery &in) {
  llvm::ArrayRef<GroupForm> before = in.form.before;
  const GroupForm *last = &in.form;
  if (!in.form.anchor) {
    last = &before.back();
    before = before.drop_back();
  }
  if (before.size() != 2)
    return Refusal{"not three anchors", ""};
  auto first = readProduct({before.back(), in.level, in.alignment}),
       second = readProduct({*last, in.level, in.alignment});
  if (!first || !second)
    return (second ? std::move(first) : std::move(second)).refusal();
  Gates g{in, *std::move(first), *std::move(second)};
  if (g.first.c.b != g.second.c.b || g.hidden() != g.second.c.depth())
    return Refusal{"weights that do not belong together", ""};
  if (auto means = readMeans(before[0], g); !means)
    return std::move(means).refusal();
  if (!g.x.space[g.channel].isConstant(g.channels()) || g.x.space[g.image] != g.images())
    return Refusal{"products that mix images", ""};
  if (!in.form.anchor)
    if (auto image = readImage(in, g); !image)
      return std::move(image).refusal();
  return g;
}

} // namespace tenon::cuda
