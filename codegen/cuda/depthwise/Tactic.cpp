// Defines the tactic `depthwise`: convolutions in which each channel has filters of its own
// (runtime/cuda/depthwise/kernel.cuh); and what Mma.cpp shares with it.
#include "codegen/cuda/depthwise/Problem.h"

#include "codegen/core/TacticOf.h"
#include "codegen/core/Work.h"
#include "codegen/forms/AnchorForms.h"

namespace tenon::cuda {
Result<DepthwiseProblem> readDepthwise(const GroupQuery &in) {
  const GroupForm &f = in.form;
  if (auto anchor = matchAnchor(in, Op::Conv); !anchor)
    return std::move(anchor).refusal();
  const Element x = f.anchor->operand(0)->type().element();
  const bool bytes = isInteger(x) && bitWidth(x) == 8;
  if (!bytes && computeElement(x) != Element::F32)
    return Refusal{"operands that are neither computed in f32 nor bytes", ""};
  const auto xZero = readZeroPoint(f);
  if (!xZero)
    return xZero.refusal();
  if (bytes && !f.anchorInputs[0].isPlainRead())
    return Refusal{"bytes that are computed in the group", ""};
  const auto p = convProblem(*f.anchor);
  if (!p)
    return p.refusal();
  if (!p->isDepthwise() || p->kernelW > 32)
    return Refusal{p->isDepthwise() ? "a window of more than 32 columns" : "not depthwise", ""};
  Value *w = constantOperand(f, 1);
  if (!w || w->type().rank() != f.anchorInputs[1].inputs[0].type.rank())
    return Refusal{"weights that are not constant", ""};
  auto body =
      isUnbounded(f.anchorInputs[0]).andThen([&] { return isPlainBody(f.body); }).andThen([&] {
        return fitsInt(f);
      });
  if (!body)
    return std::move(body).refusal();
  return DepthwiseProblem{in, *p, *xZero};
}

void emitDepthwise(const DepthwiseProblem &problem, const KeyValues &members, StepWriter &out,
                   llvm::StringRef kernel, llvm::function_ref<void(StepWriter::Config &)> rest) {
  const GroupForm &form = problem.in.form;
  const ConvProblem &p = problem.conv;
  const Operation &op = *form.anchor;
  StepWriter::Config cfg(out, "config", "cuda::window_defaults");
  cfg.extent("batch", p.batch).extent("out_h", p.outHeight).extent("out_w", p.outWidth);
  cfg.extent("in_h", p.inHeight).extent("in_w", p.inWidth);
  cfg.extent("channels", p.groups).extent("multiplier", p.filters);
  writeWindow(cfg, p);
  for (auto &[key, value] : members)
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

constexpr double kThreads = 128; // of a block

struct DepthwiseSchedule {
  int64_t vector, columns; // of a thread

  static llvm::ArrayRef<Field<DepthwiseSchedule>> fields() {
    static const Field<DepthwiseSchedule> kFields[] = {
        {"vector", &DepthwiseSchedule::vector, oneOf(1, 2, 4, 8)},
        {"columns", &DepthwiseSchedule::columns, oneOf(1, 2, 4, 8)},
    };
    return kFields;
  }
};

/// Columns that a thread's windows cover.
int64_t spanOf(const ConvProblem &p, int64_t columns) {
  return (columns - 1) * p.strideW + (p.kernelW - 1) * p.dilationW + 1;
}
constexpr int64_t kMostSpan = 14; // in registers

/// Output columns per thread: as many as keep the columns that they read in registers. Eight pay
/// for windows of seven columns and more, whose weights are otherwise widened too often.
int64_t columnsOf(const ConvProblem &p, int64_t most) {
  const int64_t span = most > 4 ? kMostSpan : 12;
  int64_t n = most;
  while (n > 1 && (spanOf(p, n) > span || n > p.outWidth.upper()))
    n /= 2;
  return n;
}

struct Depthwise : PricedBy<kDepthwiseCosts> {
  static constexpr llvm::StringRef id = "depthwise",
                                   summary = "depthwise convolution, runs of channels";
  using Problem = DepthwiseProblem;
  using Schedule = DepthwiseSchedule;

  static Result<Problem> match(const GroupQuery &in) { return readDepthwise(in); }

  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    int64_t last = 0;
    const int64_t results = p.in.form.anchor->result()->type().upperElements();
    const bool fills = results / (4 * 8) >= int64_t(kThreads) * int64_t(p.in.level.multiprocessors);
    for (int64_t most : {8, 4, 2, 1}) {
      if (most > 4 && (p.conv.kernelW < 7 || p.sumsBytes() || !fills))
        continue;
      const int64_t columns = columnsOf(p.conv, most);
      for (int64_t vector : {8, 4, 2, 1})
        if (columns != last && (vector < 8 || p.sumsBytes()) && (columns <= 4 || vector == 4))
          out.push_back({p.conv.kernelW > 16 ? 1 : vector, columns});
      last = columns;
    }
  }

  static Result<> legal(const Problem &p, const Schedule &s) {
    const int64_t bits = bitWidth(p.in.form.anchor->operand(0)->type().element()),
                  most = p.conv.kernelW > 16 ? 1 : std::min<int64_t>(8, 128 / bits);
    if (s.vector > most)
      return impossible<Depthwise>(s, "vector is " + std::to_string(most) +
                                          " at most: 16 bytes, or one element in windows of more "
                                          "than 16 columns");
    if (s.columns > 1 && spanOf(p.conv, s.columns) > kMostSpan)
      return impossible<Depthwise>(s, "windows of so many columns cover " +
                                          std::to_string(spanOf(p.conv, s.columns)) +
                                          " pixels, more than " + std::to_string(kMostSpan));
    return Accepted{};
  }

  /// Whether runs of channels are loaded element by element.
  static bool areChannelsApart(const Problem &p) {
    const ScalarProgram &x = p.in.form.anchorInputs[0];
    return llvm::any_of(x.inputs, [&](const Access &a) {
      return !stridesOf(a, unsigned(x.space.size())).strides[1].isConstant(1);
    });
  }

  static double microseconds(const Problem &p, const Schedule &s, const DepthwiseCosts &c) {
    const Work w = workOf(*p.in.form.group);
    const double vector = double(s.vector), columns = double(s.columns);
    const double threads =
        double(p.in.form.anchor->result()->type().upperElements()) / (vector * columns);
    const double loads =
        double(p.conv.kernelH) * double(spanOf(p.conv, s.columns) + p.conv.kernelW);
    // Neighbouring threads take neighbouring channels: apart, each has lines of memory to itself.
    const bool apart = areChannelsApart(p);
    const double load = (apart ? 4 * vector : 1) * c.load;
    Effort e;
    e.bytes = double(w.bytes) * (apart ? 4 : 1);
    e.operations = c.operation * w.flops + threads * loads * (load + c.element * vector);
    e.blocks = threads / kThreads;
    return cuda::microseconds(p.in.level, e);
  }

  static void pack(const Problem &p, const Schedule &, llvm::SmallVectorImpl<Packing> &out) {
    packDepthwiseFilters(p.in.form, out);
  }

  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    out.include("cuda/depthwise/kernel.cuh");
    emitDepthwise(p, membersOf(s), out, "depthwise", [&](StepWriter::Config &cfg) {
      const GroupForm &form = p.in.form;
      if (p.xZero)
        cfg.number("x_zero", p.xZero);
      const ScalarProgram &image = form.anchorInputs[0];
      if (p.conv.filters != 1 || !image.isPlainRead())
        return;
      Value *weights = form.anchorInputs[1].inputs[0].source;
      const Dim zero = form.anchor->result()->type().context().dim(0);
      const Strides x = inPlane(stridesOf(image.inputs[0], unsigned(image.space.size())), p.conv);
      cfg.flag(
          "whole_runs",
          hasWholeRuns(out, image.inputs[0].source, x, 1, zero + p.conv.groups, s.vector) &&
              out.isAligned(weights, zero, s.vector * bitWidth(weights->type().element()) / 8));
    });
  }
};

} // namespace

const Tactic &kDepthwise = kTacticOf<Depthwise>;

} // namespace tenon::cuda
