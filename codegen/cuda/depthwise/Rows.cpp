// Defines the tactic `depthwise_rows`: convolutions of planes and volumes in which each channel has
// filters of its own, where rows lie in memory one after another (runtime/cuda/depthwise/rows.cuh).
#include "codegen/cuda/depthwise/Problem.h"

#include "codegen/core/Work.h"
#include "codegen/forms/AnchorForms.h"

namespace tenon::cuda {
namespace {

constexpr int64_t kThreads = 128;    // of a block
constexpr int64_t kMostRows = 16;    // of the input, that a thread takes in a row of its text
constexpr int64_t kMostColumns = 64; // of a filter, whose row is unrolled
constexpr int64_t kMostWeights = 64; // in registers

struct DepthwiseRowsSchedule {
  int64_t vector, height; // of a thread

  static llvm::ArrayRef<Field<DepthwiseRowsSchedule>> fields() {
    static const Field<DepthwiseRowsSchedule> kFields[] = {
        {"vector", &DepthwiseRowsSchedule::vector, oneOf(1, 2, 4, 8)},
        {"height", &DepthwiseRowsSchedule::height, oneOf(1, 2, 4)},
    };
    return kFields;
  }
};

struct DepthwiseRows {
  static constexpr llvm::StringLiteral id = "depthwise_rows",
                                       summary = "depthwise convolution of planes and volumes, "
                                                 "runs of columns";
  struct Problem {
    GroupQuery in;
    ConvProblem conv;

    /// Strides over (n, c, d, h, w).
    Strides inVolume(const Strides &s) const {
      Strides r = inPlane(s, conv);
      if (!conv.isVolume())
        r.strides.insert(r.strides.begin() + 2, s.offset.node()->context->dim(0));
      return r;
    }
  };
  using Schedule = DepthwiseRowsSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    const GroupForm &f = in.form;
    if (auto anchor = matchAnchor(in, Op::Conv); !anchor)
      return std::move(anchor).refusal();
    const Element e = f.anchor->operand(0)->type().element();
    if (!isFloat(e) || computeElement(e) != Element::F32)
      return Refusal{"operands that are not computed in f32", ""};
    const auto conv = convProblem(*f.anchor, 3);
    if (!conv)
      return conv.refusal();
    if (!conv->isDepthwise() || conv->kernelW > kMostColumns)
      return Refusal{conv->isDepthwise()
                         ? "a window of more than " + std::to_string(kMostColumns) + " columns"
                         : "not depthwise",
                     ""};
    Value *w = constantOperand(f, 1);
    if (!w || w->type().rank() != f.anchorInputs[1].inputs[0].type.rank())
      return Refusal{"weights that are not constant", ""};
    if (!f.anchorInputs[0].isPlainRead())
      return Refusal{"an image that is computed in the group", ""};
    const Problem p{in, *conv};
    const auto hasRows = [&](const Strides &s) { return p.inVolume(s).strides[4].isConstant(1); };
    const Access &x = f.anchorInputs[0].inputs[0];
    if (!hasRows(stridesOf(x, unsigned(f.body.space.size()))) ||
        !hasRows(stridesOf(f.outputs.front(), unsigned(f.body.space.size()))))
      return Refusal{"rows whose elements are not neighbours in memory", ""};
    auto body = isPlainBody(f.body).andThen([&] { return fitsInt(f); });
    if (!body)
      return std::move(body).refusal();
    return p;
  }

  /// Rows of the input that a thread's windows touch in a plane.
  static int64_t rowsOf(const ConvProblem &p, int64_t height) {
    return (height - 1) * p.strideH + (p.kernelH - 1) * p.dilationH + 1;
  }
  /// Runs of a row.
  static int64_t runsOf(const ConvProblem &p, int64_t vector) {
    const int64_t before = ceilDiv(std::max<int64_t>(p.padLeft, 0), vector) * vector;
    return ceilDiv(
        before - p.padLeft + (vector - 1) * p.strideW + (p.kernelW - 1) * p.dilationW + 1, vector);
  }

  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    const int64_t bytes = bitWidth(p.in.form.anchor->operand(0)->type().element()) / 8;
    for (int64_t vector : {16 / bytes, 8 / bytes, int64_t(1)})
      for (int64_t height : {1, 2, 4})
        if (legal(p, {vector, height}) && (vector == 1 || vector < 2 * p.conv.outWidth.upper()) &&
            (height == 1 || height <= p.conv.outHeight.upper()))
          out.push_back({vector, height});
  }

  static Result<> legal(const Problem &p, const Schedule &s) {
    const int64_t bytes = bitWidth(p.in.form.anchor->operand(0)->type().element()) / 8;
    if (s.vector * bytes > 16)
      return impossible<DepthwiseRows>(s, "a run has 16 bytes at most");
    if (s.height > 1 &&
        (rowsOf(p.conv, s.height) > kMostRows || p.conv.kernelH * p.conv.kernelW > kMostWeights))
      return impossible<DepthwiseRows>(s, "windows of so many rows do not fit into registers");
    return Accepted{};
  }

  /// Operations of a load of a run and its widening, of a weight, beside the products; and
  /// microseconds that a thread of several rows of outputs waits for each row more than one of one
  /// does. By hand, from 47 times of one H200.
  static double microseconds(const Problem &p, const Schedule &s) {
    constexpr double kLoad = 8, kElement = 1.5, kWeight = 6, kRow = 0.3;
    const Work w = workOf(*p.in.form.group);
    const double threads =
        double(p.in.form.anchor->result()->type().upperElements()) / double(s.vector * s.height);
    const bool unrolled = rowsOf(p.conv, s.height) <= kMostRows;
    const double rows = unrolled ? std::min<double>(double(rowsOf(p.conv, s.height)),
                                                    double(s.height * p.conv.kernelH))
                                 : double(s.height * p.conv.kernelH);
    const double loads = double(p.conv.kernelD) * rows * double(runsOf(p.conv, s.vector)) *
                         (kLoad + kElement * double(s.vector));
    Effort e;
    e.bytes = double(w.bytes);
    e.operations = 1.3 * w.flops + threads * (loads + kWeight * double(p.conv.taps()) + 60);
    e.blocks = threads / kThreads;
    return cuda::microseconds(p.in.level, e) +
           kRow * double(p.conv.kernelD) * (rows - double(p.conv.kernelH));
  }

  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    const GroupForm &form = p.in.form;
    const ConvProblem &c = p.conv;
    const Access &image = form.anchorInputs[0].inputs[0];
    Value *weights = form.anchorInputs[1].inputs[0].source;
    const Dim zero = form.anchor->result()->type().context().dim(0);
    const auto change = [&](const Strides &strides) { return p.inVolume(strides); };
    const auto rank = unsigned(form.body.space.size());
    out.include("cuda/depthwise/rows.cuh");
    StepWriter::Config cfg(out, "config", "cuda::window_defaults");
    cfg.extent("batch", c.batch).extent("channels", c.groups).extent("multiplier", c.filters);
    cfg.extent("out_h", c.outHeight).extent("out_w", c.outWidth);
    cfg.extent("in_h", c.inHeight).extent("in_w", c.inWidth);
    writeWindow(cfg, c);
    ConvProblem depth = c;
    if (!c.isVolume())
      depth.inDepth = depth.outDepth = zero + 1;
    writeDepth(cfg, depth);
    cfg.number("vector", s.vector).number("height", s.height);
    cfg.flag("whole_runs", hasWholeRuns(out, image.source, change(stridesOf(image, rank)), 4,
                                        c.inWidth, s.vector));
    cfg.flag("whole_results", areResultsWhole(out, form, change, 4, c.outWidth, s.vector));
    const std::string config = cfg.finish();
    const std::string body = out.body(form.body, {form.anchor->result()->type().element()});
    SourceWriter &code = out.code();
    code.line("const auto x = " + out.view(image.source, change(stridesOf(image, rank))) + ";");
    code.line("const auto *w = " + out.pointer(weights, zero) + ";");
    code.line("const auto outs = " + out.outputs(form, change) + ";");
    code.line("const auto ins = " + out.inputs(form.body, change) + ";");
    launch(out, "depthwise_rows", {config, "x", "w", "outs", "ins", body});
  }
};

} // namespace

const Tactic &kDepthwiseRows = kTacticOf<DepthwiseRows>;

} // namespace tenon::cuda
