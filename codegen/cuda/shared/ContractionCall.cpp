// Implements the text of a contraction: what its kernel walks, its configuration and its call.
#include "codegen/cuda/shared/Contraction.h"

#include "codegen/forms/AnchorForms.h"

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
  if (p.isVolume())
    writeDepth(cfg, p);
}

} // namespace

bool areInputsAligned(const ScalarProgram &body, const StepWriter &out,
                      llvm::function_ref<Strides(const Strides &)> over) {
  return llvm::all_of(body.inputs, [&](const Access &x) {
    return out.isAligned(x.source, over(stridesOf(x, unsigned(body.space.size()))).offset, 16);
  });
}
bool areResultsAligned(const GroupForm &form, const StepWriter &out,
                       llvm::function_ref<Strides(const Strides &)> over) {
  const auto rank = unsigned(form.body.space.size());
  for (unsigned i = 0; i < form.outputs.size(); ++i)
    if (!out.isResultAligned(i, over(stridesOf(form.outputs[i], rank)).offset, 16))
      return false;
  return areInputsAligned(form.body, out, over);
}

ContractionCall::ContractionCall(const GroupQuery &in, const Contraction &c,
                                 const KeyValues &members, StepWriter &out)
    : cfg(out, "config",
          in.form.anchor->is(Op::MatMul) ? "cuda::matmul_defaults" : "cuda::conv_defaults"),
      contraction_(c), form_(in.form), out_(out) {
  const ScalarProgram &program = form_.anchorInputs[0];
  a_ = stridesOf(program.inputs[c.mainInput], unsigned(program.space.size()));
  if (c.isConv) {
    const Walk walk = walkOf(form_, a_, c.conv);
    a_ = walk.strides(a_);
    writeExtents(walk.problem, cfg);
    over = [walk](const Strides &x) { return walk.strides(x); };
  } else {
    a_ = matrix(a_, c.transA);
    cfg.extent("batch0", c.batch0).extent("batch1", c.batch1);
    cfg.extent("m", c.m).extent("n", c.n).parameter("k", c.k);
    over = [this](const Strides &x) { return matrix(x, false); };
  }
  for (auto &[key, value] : members)
    cfg.number(key, value);
}

Strides ContractionCall::matrix(const Strides &from, bool transposed) const {
  const Contraction &c = contraction_;
  Strides r;
  r.offset = from.offset;
  for (unsigned d : {c.batch0Dim, c.batch1Dim, c.rowDim, 1u})
    r.strides.push_back(strideFromLast(from, d));
  if (transposed) // B, or an A whose rows are not merged
    r.strides[3] = strideFromLast(from, 2), r.strides[2] = strideFromLast(from, 1);
  return r;
}

std::string ContractionCall::finish(bool alignedResults) {
  const Contraction &c = contraction_;
  cfg.flag("aligned",
           out_.isAligned(form_.anchorInputs[0].inputs[c.mainInput].source, a_.offset, 16));
  cfg.flag("aligned_results", alignedResults);
  if (c.hasPrologue)
    cfg.flag("on_fragments", c.onFragments);
  if (c.xZero)
    cfg.number("x_zero", c.xZero);
  return cfg.finish();
}

void ContractionCall::writeOperands(llvm::StringRef weights) {
  const Contraction &c = contraction_;
  const Access &b = form_.anchorInputs[1].inputs[0];
  SourceWriter &code = out_.code();
  code.line("const auto x = " + out_.view(form_.anchorInputs[0].inputs[c.mainInput].source, a_) +
            ";");
  if (c.isPacked) {
    const Dim zero = form_.anchor->result()->type().context().dim(0);
    std::string pointers = out_.pointer(b.source, zero);
    for (const GroupForm &beside : form_.beside)
      pointers += ", " + out_.pointer(beside.anchorInputs[1].inputs[0].source, zero);
    code.line("const auto w = cuda::make_" + weights.str() + "(" + pointers + ");");
    return;
  }
  // B's rows are K.
  const Strides from = stridesOf(b, unsigned(form_.anchorInputs[1].space.size()));
  Strides of = matrix(from, c.transB);
  if (!c.transB)
    of.strides[2] = strideFromLast(from, 2);
  code.line("const auto w = " + out_.view(b.source, of) + ";");
}

void ContractionCall::appendPrologue(std::vector<std::string> &arguments) {
  const Contraction &c = contraction_;
  if (!c.hasPrologue)
    return;
  // The functor's first parameter is the element itself, the others vary along K.
  ScalarProgram program = form_.anchorInputs[0];
  const size_t kDim = c.isConv ? 1 : program.space.size() - (c.transA ? 2 : 1);
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
    views += (views.empty() ? "" : ", ") + out_.view(program.inputs[i].source, along);
  }
  arguments.push_back(out_.body(program, {}, "prologue"));
  arguments.push_back("pack(" + views + ")");
}

void emitContraction(const GroupQuery &in, const Contraction &c, const KeyValues &members,
                     SplitScratch scratch, StepWriter &out, llvm::StringRef kernel,
                     llvm::StringRef weights) {
  const GroupForm &form = in.form;
  ContractionCall call(in, c, members, out);
  const std::string config = call.finish(areResultsAligned(form, out, call.over));
  const std::string body = out.body(form.body, sumsOf(form));
  call.writeOperands(weights);
  out.code().line("const auto outs = " + out.outputs(form, call.over) + ";");
  out.code().line("const auto ins = " + out.inputs(form.body, call.over) + ";");
  std::vector<std::string> arguments = {config, "x", "w", "outs", "ins", body};
  if (scratch == SplitScratch::Used)
    arguments.push_back("cuda::split_scratch{" + out.scratchPointer("float") + ", " +
                        out.zeroedPointer("int") + "}");
  else if (scratch == SplitScratch::Unused && c.hasPrologue)
    arguments.push_back("cuda::split_scratch{}");
  call.appendPrologue(arguments);
  launch(out, (c.isConv ? "conv_" : "matmul_") + kernel.str(), arguments);
}

} // namespace tenon::cuda
