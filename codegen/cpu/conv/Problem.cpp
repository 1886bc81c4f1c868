// Implements what the tactics of convolutions share.
#include "codegen/cpu/conv/Problem.h"

#include "codegen/core/Work.h"
#include "codegen/cpu/shared/Prologue.h"
#include "codegen/cpu/shared/Window.h"
#include "codegen/forms/AnchorForms.h"
#include "ir/Context.h"

#include "llvm/Support/MathExtras.h"

namespace tenon::cpu {

double WindowProblem::moving() const {
  return double(workOf(*in.form.group).bytes) / (in.level.bandwidthGBs * 1e3) * 0.2;
}

int64_t evenColumns(int64_t columns, int64_t most) {
  return int64_t(llvm::divideCeil(columns, llvm::divideCeil(columns, std::max<int64_t>(1, most))));
}

Result<WindowProblem> windowProblem(const GroupQuery &in, Factors factors, int most) {
  if (auto anchor = matchAnchor(in, Op::Conv); !anchor)
    return std::move(anchor).refusal();
  const GroupForm &f = in.form;
  if (auto operands = multiplies(in, factors); !operands)
    return std::move(operands).refusal();
  auto conv = convProblem(*f.anchor, most);
  if (!conv)
    return std::move(conv).refusal();
  WindowProblem p{in, *conv, 0, {}};
  const ScalarProgram &x = f.anchorInputs[0];
  auto tensor = prologueTensor(x, 1, p.sums());
  if (!tensor)
    return std::move(tensor).refusal();
  if (!constantOperand(f, 1))
    return Refusal{"weights known only at run time", ""};
  p.tensor = *tensor;
  p.x = inPlane(stridesOf(x.inputs[p.tensor], unsigned(x.space.size())), p.conv);
  return p;
}

void packWeights(const WindowProblem &p, int64_t block, bool channelsFirst,
                 llvm::SmallVectorImpl<Packing> &out) {
  const Value *source = p.in.form.anchorInputs[1].inputs[0].source;
  const Type w = source->type();
  llvm::SmallVector<LayoutAxis, 6> axes;
  axes.push_back({0, block, false, Dim(), 0});
  for (unsigned d = channelsFirst ? 1 : 2; d < w.rank(); ++d)
    axes.push_back({int(d), 0, false, Dim(), 0});
  if (!channelsFirst)
    axes.push_back({1, 0, false, Dim(), 0});
  if (block > 0)
    axes.push_back({0, block, true, Dim(), 0});
  out.push_back({source->index(), Layout::get(w.context(), axes)});
}

void emitWindow(const WindowProblem &problem, const WindowCall &call, StepWriter &out) {
  const GroupForm &form = problem.in.form;
  const Operation &op = *form.anchor;
  ConvProblem p = problem.conv;
  const Strides &x = problem.x;
  const ScalarProgram &xProgram = form.anchorInputs[0];
  const unsigned tensor = problem.tensor;
  const auto rank = unsigned(xProgram.space.size());

  // A 1x1 convolution walks the plane as one long row where every tensor allows it.
  bool flat =
      problem.isFlat() && !call.depthwise && mergesPlane(x, p.inWidth) && !form.body.usesIndex();
  for (const OutputForm &o : form.outputs)
    flat &= mergesPlane(inPlane(stridesOf(o, rank), p), p.outWidth);
  for (const Access &a : form.body.inputs)
    flat &= mergesPlane(inPlane(stridesOf(a, rank), p), p.outWidth);
  if (flat && p.spatialRank == 2) {
    p.inWidth = p.outWidth = p.outHeight * p.outWidth;
    p.inHeight = p.outHeight = p.outWidth.node()->context->dim(1);
  }

  out.include("cpu/" + call.kernel.str() + ".h");
  StepWriter::Config cfg(out, "config",
                         call.depthwise ? "cpu::depthwise_defaults" : "cpu::conv_defaults");
  cfg.extent("batch", p.batch).extent("out_h", p.outHeight).extent("out_w", p.outWidth);
  cfg.extent("in_h", p.inHeight).extent("in_w", p.inWidth);
  if (call.depthwise) {
    cfg.extent("channels", p.groups).extent("multiplier", p.filters);
  } else {
    cfg.extent("groups", p.groups).extent("filters", p.filters).extent("channels", p.channels);
  }
  writeWindow(cfg, p);
  if (p.isVolume())
    writeDepth(cfg, p);
  for (auto &[key, value] : call.schedule)
    cfg.number(key, value);
  if (!xProgram.isPlainRead() || hasZeroPoint(form) || call.pixelsOuter)
    cfg.flag("filters_outer", false); // what a prologue made is kept for all filters
  if (call.rowRuns)
    cfg.flag("row_runs", true);
  // Dot products read taps and channels as one run of memory.
  if (call.dot &&
      !(x.strides.back().isConstant(p.channels) && (p.channels == 1 || x.strides[1].isConstant(1))))
    cfg.flag("pack_input", true);
  const Element e = problem.sums();
  const unsigned lanes = call.lanes != 0 ? call.lanes : problem.width();
  if (lanes != problem.in.level.simdWidth)
    cfg.type("lanes", lanesType(lanes));
  cfg.type("accumulator", cppElement(e));
  const std::string config = cfg.finish();

  const std::string body = out.body(form.body, {op.result()->type().element()});
  const std::string prologue =
      prologueArguments(out, xProgram, tensor, 1) + zeroPointArguments(out, form);
  auto plane = [&](const Strides &strides) { return inPlane(strides, p); };
  SourceWriter &c = out.code();
  c.line("const auto x = " + out.view(xProgram.inputs[tensor].source, x) + ";");
  c.line("const auto *w = " +
         out.pointer(form.anchorInputs[1].inputs[0].source, x.offset.node()->context->dim(0)) +
         ";");
  c.line("const auto outs = " + out.outputs(form, plane) + ";");
  c.line("const auto ins = " + inputsIn(out, form.body, plane, planePlaces(p)) + ";");
  c.line("cpu::" + call.kernel.str() + "(" + config + ", x, w, outs, ins, " + body +
         ", *f.workers" + prologue + ");");
}

} // namespace tenon::cpu
