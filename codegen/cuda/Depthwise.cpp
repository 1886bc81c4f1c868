// Defines the tactic `depthwise`: convolutions in which each channel has filters of its own
// (runtime/cuda/depthwise.cuh); and what DepthwiseMma.cpp shares with it.
#include "codegen/cuda/Depthwise.h"

#include "codegen/AnchorForms.h"
#include "codegen/Work.h"
#include "codegen/cuda/Tactics.h"

namespace tenon::cuda {
namespace {

constexpr double kThreads = 128; // of a block

} // namespace

bool matchDepthwise(const TacticInput &in, std::string &why) {
  const GroupForm &f = in.form;
  if (!matchAnchor(in, Op::Conv, why))
    return false;
  const Element x = f.anchor->operand(0)->type().element();
  const bool bytes = isInteger(x) && bitWidth(x) == 8;
  if (!bytes && computeElement(x) != Element::F32) {
    why = "operands that are neither computed in f32 nor bytes";
    return false;
  }
  int64_t xZero;
  if (!readZeroPoint(f, xZero, why))
    return false;
  if (bytes && !f.anchorInputs[0].isPlainRead()) {
    why = "bytes that are computed in the group";
    return false;
  }
  const auto p = convProblem(*f.anchor, why);
  if (!p)
    return false;
  if (!p->isDepthwise() || p->kernelW > 32) {
    why = p->isDepthwise() ? "a window of more than 32 columns" : "not depthwise";
    return false;
  }
  Value *w = constantOperand(f, 1);
  if (!w || w->type().rank() != f.anchorInputs[1].inputs[0].type.rank()) {
    why = "weights that are not constant";
    return false;
  }
  if (!isUnbounded(f.anchorInputs[0], why))
    return false;
  return isPlainBody(f.body, why) && fitsInt(f, why);
}

void packFilters(const GroupForm &form, llvm::SmallVectorImpl<Packing> &out) {
  const Value *source = form.anchorInputs[1].inputs[0].source;
  const Type w = source->type();
  llvm::SmallVector<int, 4> order;
  for (unsigned d = 2; d < w.rank(); ++d)
    order.push_back(int(d));
  order.append({1, 0});
  out.push_back({source->index(), Layout::permuted(w.context(), order)});
}

void emitDepthwise(const TacticInput &in, const Schedule &s, StepWriter &out,
                   llvm::StringRef kernel, llvm::function_ref<void(StepWriter::Config &)> rest) {
  const GroupForm &form = in.form;
  const Operation &op = *form.anchor;
  std::string why;
  const ConvProblem p = *convProblem(op, why);
  out.include("cuda/" + kernel.str() + ".cuh");
  StepWriter::Config cfg(out, "config", "cuda::window_defaults");
  cfg.extent("batch", p.batch).extent("out_h", p.outHeight).extent("out_w", p.outWidth);
  cfg.extent("in_h", p.inHeight).extent("in_w", p.inWidth);
  cfg.extent("channels", p.groups).extent("multiplier", p.filters);
  writeWindow(cfg, p);
  for (auto &[key, value] : s.params)
    cfg.number(key, value);
  rest(cfg);
  const std::string config = cfg.finish();
  auto plane = [&](const Strides &strides) { return inPlane(strides, p); };
  const std::string x = operandView(out, form.anchorInputs[0], plane, planePlaces(p), "prologue");
  const std::string body = out.body(form.body, {op.result()->type().element()});
  const Dim zero = op.result()->type().context().dim(0);
  SourceWriter &c = out.code();
  c.line("const auto x = " + x + ";");
  c.line("const auto *w = " + out.pointer(form.anchorInputs[1].inputs[0].source, zero) + ";");
  c.line("const auto outs = " + out.outputs(form, plane) + ";");
  c.line("const auto ins = " + out.inputs(form.body, plane) + ";");
  launch(out, kernel.str(), {config, "x", "w", "outs", "ins", body});
}

namespace {

bool sumsBytes(const TacticInput &in) {
  return !isFloat(in.form.anchor->operand(0)->type().element());
}

/// Output columns per thread: as many as keep the columns that they read in registers. Eight pay
/// for windows of seven columns and more, whose weights are otherwise widened too often.
int64_t columnsOf(const ConvProblem &p, int64_t most) {
  const int64_t span = most > 4 ? 14 : 12;
  int64_t n = most;
  while (n > 1 &&
         ((n - 1) * p.strideW + (p.kernelW - 1) * p.dilationW + 1 > span || n > p.outWidth.upper()))
    n /= 2;
  return n;
}

void enumerate(const TacticInput &in, llvm::SmallVectorImpl<Schedule> &out) {
  std::string why;
  const ConvProblem p = *convProblem(*in.form.anchor, why);
  int64_t last = 0;
  const int64_t results = in.form.anchor->result()->type().upperElements();
  const bool fills = results / (4 * 8) >= int64_t(kThreads) * int64_t(in.level.multiprocessors);
  for (int64_t most : {8, 4, 2, 1}) {
    if (most > 4 && (p.kernelW < 7 || sumsBytes(in) || !fills))
      continue;
    const int64_t columns = columnsOf(p, most);
    for (int64_t vector : {8, 4, 2, 1})
      if (columns != last && (vector < 8 || sumsBytes(in)) && (columns <= 4 || vector == 4))
        out.push_back(
            {"depthwise", {{"vector", p.kernelW > 16 ? 1 : vector}, {"columns", columns}}});
    last = columns;
  }
}

double cost(const TacticInput &in, const Schedule &s) {
  std::string why;
  const ConvProblem p = *convProblem(*in.form.anchor, why);
  const Work w = workOf(*in.form.group);
  const double vector = double(*s.get("vector")), columns = double(*s.get("columns"));
  const double span = (columns - 1) * double(p.strideW) + double((p.kernelW - 1) * p.dilationW) + 1;
  const double threads =
      double(in.form.anchor->result()->type().upperElements()) / (vector * columns);
  // Every load moves a run, and its elements are widened one by one.
  const double loads = double(p.kernelH) * (span + double(p.kernelW));
  Effort e;
  e.bytes = double(w.bytes);
  e.operations = w.flops + threads * loads * (4 + 2 * vector);
  e.efficiency = 0.5;
  e.blocks = threads / kThreads;
  return microseconds(in.level, e);
}

void pack(const TacticInput &in, const Schedule &, llvm::SmallVectorImpl<Packing> &out) {
  packFilters(in.form, out);
}

void emit(const TacticInput &in, const Schedule &s, StepWriter &out) {
  emitDepthwise(in, s, out, "depthwise", [&](StepWriter::Config &cfg) {
    const GroupForm &form = in.form;
    std::string why;
    int64_t xZero;
    if (readZeroPoint(form, xZero, why) && xZero)
      cfg.number("x_zero", xZero);
    const ConvProblem p = *convProblem(*form.anchor, why);
    const ScalarProgram &image = form.anchorInputs[0];
    if (p.filters != 1 || !image.isPlainRead())
      return;
    Value *weights = form.anchorInputs[1].inputs[0].source;
    const Dim zero = form.anchor->result()->type().context().dim(0);
    const int64_t vector = *s.get("vector"),
                  bytes = vector * bitWidth(weights->type().element()) / 8;
    const Strides x = inPlane(stridesOf(image.inputs[0], unsigned(image.space.size())), p);
    cfg.flag("whole_runs",
             hasWholeRuns(out, image.inputs[0].source, x, 1, zero + p.groups, vector) &&
                 out.isAligned(weights, zero, bytes));
  });
}

} // namespace

const Tactic kDepthwise = {"depthwise",    "depthwise convolution, runs of channels",
                           matchDepthwise, enumerate,
                           cost,           pack,
                           nullptr,        emit};

} // namespace tenon::cuda
