// Implements the text of a contraction: what its kernel walks, its configuration and its call.
#include "codegen/cuda/Contraction.h"

#include "codegen/AnchorForms.h"

namespace tenon::cuda {
namespace {

/// What the kernel of a convolution walks: planes or volumes; one long row, where the kernel is of
/// one tap and everything lies so.
struct Walk {
  ConvProblem problem;

  /// Over (n, c, [d,] h, w).
  Strides strides(const Strides &s) const {
    Strides r = inPlane(s, problem);
    if (r.strides.size() == 5 && !problem.isVolume())
      r.strides.erase(r.strides.begin() + 2);
    return r;
  }
};

bool isOneRow(const Strides &s, const ConvProblem &p) {
  const size_t w = s.strides.size() - 1;
  return s.strides[w - 1] == s.strides[w] * p.outWidth &&
         (!p.isVolume() || s.strides[w - 2] == s.strides[w - 1] * p.outHeight);
}

/// Whether the rows of all images are one; offsets along it fit in 32 bits.
bool isOneRowOfAll(llvm::ArrayRef<Strides> operands, const ConvProblem &p) {
  const int64_t channels = p.groups * std::max(p.channels, p.filters);
  return p.batch.isConstant() && p.outWidth.isConstant() &&
         p.batch.constant() * p.outWidth.constant() * channels < int64_t(1) << 30 &&
         llvm::all_of(operands, [&](const Strides &s) {
           return s.strides.front() == s.strides.back() * p.outWidth;
         });
}

Walk walkOf(const GroupForm &form, const Strides &a, ConvProblem p) {
  const auto rank = unsigned(form.body.space.size());
  std::vector<Strides> operands{a};
  for (const OutputForm &o : form.outputs)
    operands.push_back(stridesOf(o, rank));
  for (const Access &x : form.body.inputs)
    operands.push_back(stridesOf(x, rank));
  if (p.isPointwise() && p.spatialRank > 1 &&
      llvm::all_of(operands, [&](const Strides &s) { return isOneRow(s, p); })) {
    const Dim one = p.batch.node()->context->dim(1);
    p.outWidth = p.outHeight * p.outWidth;
    if (p.isVolume())
      p.outWidth = p.outDepth * p.outWidth;
    if (isOneRowOfAll(operands, p)) {
      p.outWidth = p.batch * p.outWidth;
      p.batch = one;
    }
    p.inWidth = p.outWidth;
    p.inHeight = p.outHeight = one;
    p.spatialRank = 2;
  }
  return {p};
}

void writeExtents(const ConvProblem &p, StepWriter::Config &cfg) {
  cfg.extent("batch", p.batch).extent("out_h", p.outHeight).extent("out_w", p.outWidth);
  cfg.extent("in_h", p.inHeight).extent("in_w", p.inWidth);
  cfg.extent("groups", p.groups).extent("filters", p.filters).parameter("channels", p.channels);
  writeWindow(cfg, p);
  if (!p.isVolume())
    return;
  cfg.extent("out_d", p.outDepth).extent("in_d", p.inDepth).extent("kernel_d", p.kernelD);
  cfg.extent("stride_d", p.strideD).extent("dilation_d", p.dilationD);
  cfg.extent("pad_front", p.padFront);
}

} // namespace

bool areResultsAligned(const GroupForm &form, const StepWriter &out,
                       llvm::function_ref<Strides(const Strides &)> over) {
  const auto rank = unsigned(form.body.space.size());
  for (const Access &x : form.body.inputs)
    if (!out.isAligned(x.source, over(stridesOf(x, rank)).offset, 16))
      return false;
  for (unsigned i = 0; i < form.outputs.size(); ++i)
    if (!out.isResultAligned(i, over(stridesOf(form.outputs[i], rank)).offset, 16))
      return false;
  return true;
}

void emitContraction(const TacticInput &in, const Schedule &s, StepWriter &out,
                     llvm::StringRef kernel, llvm::StringRef weights) {
  const GroupForm &form = in.form;
  const Operation &op = *form.anchor;
  std::string why;
  const Contraction c = *readContraction(in, why);
  const ScalarProgram &aProgram = form.anchorInputs[0];
  const Access &b = form.anchorInputs[1].inputs[0];
  Context &context = op.result()->type().context();
  const Dim zero = context.dim(0);

  out.letShapeVary();
  StepWriter::Config cfg(out, "config", c.isConv ? "cuda::conv_defaults" : "cuda::matmul_defaults");
  // Strides over what the kernel of a product walks: (b0, b1, row, column).
  auto matrix = [&](const Strides &from, bool transposed) {
    Strides r;
    r.offset = from.offset;
    for (unsigned d : {c.batch0Dim, c.batch1Dim, c.rowDim, 1u})
      r.strides.push_back(strideFromLast(from, d));
    if (transposed) // B, or an A whose rows are not merged
      r.strides[3] = strideFromLast(from, 2), r.strides[2] = strideFromLast(from, 1);
    return r;
  };
  // B's rows are K.
  auto matrixB = [&](const Strides &from) {
    Strides r = matrix(from, c.transB);
    if (!c.transB)
      r.strides[2] = strideFromLast(from, 2);
    return r;
  };
  Strides a = stridesOf(aProgram.inputs[c.mainInput], unsigned(aProgram.space.size()));
  std::function<Strides(const Strides &)> over;
  if (c.isConv) {
    const Walk walk = walkOf(form, a, c.conv);
    a = walk.strides(a);
    writeExtents(walk.problem, cfg);
    over = [walk](const Strides &x) { return walk.strides(x); };
  } else {
    a = matrix(a, c.transA);
    cfg.extent("batch0", c.batch0).extent("batch1", c.batch1);
    cfg.extent("m", c.m).extent("n", c.n).parameter("k", c.k);
    over = [matrix](const Strides &x) { return matrix(x, false); };
  }
  for (auto &[key, value] : s.params)
    cfg.number(key, value);
  cfg.flag("aligned", out.isAligned(aProgram.inputs[c.mainInput].source, a.offset, 16));
  cfg.flag("aligned_results", areResultsAligned(form, out, over));
  if (c.hasPrologue)
    cfg.flag("on_fragments", c.onFragments);
  if (c.xZero)
    cfg.number("x_zero", c.xZero);
  const std::string config = cfg.finish();
  const std::string body = out.body(form.body, {op.result()->type().element()});

  SourceWriter &code = out.code();
  code.line("const auto x = " + out.view(aProgram.inputs[c.mainInput].source, a) + ";");
  if (c.isPacked)
    code.line("const auto w = cuda::make_" + weights.str() + "(" + out.pointer(b.source, zero) +
              ");");
  else
    code.line(
        "const auto w = " +
        out.view(b.source, matrixB(stridesOf(b, unsigned(form.anchorInputs[1].space.size())))) +
        ";");
  code.line("const auto outs = " + out.outputs(form, over) + ";");
  code.line("const auto ins = " + out.inputs(form.body, over) + ";");
  std::vector<std::string> arguments = {config, "x", "w", "outs", "ins", body};
  const llvm::Optional<int64_t> splits = s.get("splits");
  if (splits && *splits > 1 && !isClustered(s))
    arguments.push_back("cuda::split_scratch{" + out.scratchPointer("float") + ", " +
                        out.zeroedPointer("int") + "}");
  else if (splits && c.hasPrologue && !isClustered(s))
    arguments.push_back("cuda::split_scratch{}");
  if (c.hasPrologue) {
    // The functor's first parameter is the element itself, the others vary along K.
    ScalarProgram program = aProgram;
    const size_t kDim = c.isConv ? 1 : aProgram.space.size() - (c.transA ? 2 : 1);
    std::swap(program.inputs[0], program.inputs[c.mainInput]);
    for (ScalarNode &n : program.nodes)
      if (n.kind == ScalarNode::Input && (n.index == 0 || n.index == c.mainInput))
        n.index = n.index == 0 ? c.mainInput : 0;
    std::string views;
    for (unsigned i = 1; i < program.inputs.size(); ++i) {
      const Strides all = stridesOf(program.inputs[i], unsigned(program.space.size()));
      Strides along;
      along.offset = all.offset;
      along.strides.push_back(all.strides[kDim]);
      views += (views.empty() ? "" : ", ") + out.view(program.inputs[i].source, along);
    }
    arguments.push_back(out.body(program, {}, "prologue"));
    arguments.push_back("pack(" + views + ")");
  }
  launch(out, (c.isConv ? "conv_" : "matmul_") + kernel.str(), arguments);
}

} // namespace tenon::cuda
