// Defines the tactics of pools: `pooling_rows` (1-d to 3-d, row by row and then along the row),
// `pooling` (1-d and 2-d, every window by itself, lanes along the channels) and `pooling_direct`
// (any number of spatial dimensions).
#include "codegen/core/TacticOf.h"
#include "codegen/core/TargetFamily.h"
#include "codegen/core/Work.h"
#include "codegen/cpu/shared/Operands.h"
#include "codegen/cpu/shared/Window.h"
#include "codegen/forms/AnchorForms.h"

#include <cmath>

namespace tenon::cpu {
namespace {

Result<> matchPool(const GroupQuery &in) {
  return matchAnchor(in, Op::Pool).andThen([&] { return isUnbounded(in.form.anchorInputs[0]); });
}

/// What a group's pool reads, over its own dimensions; none where it is computed.
llvm::Optional<Strides> stridesOfInput(const GroupForm &form) {
  const ScalarProgram &x = form.anchorInputs[0];
  if (x.inputs.size() != 1)
    return llvm::None;
  return stridesOf(x.inputs[0], unsigned(x.space.size()));
}

/// Whether lanes along the channels are neighbours in memory.
bool hasChannelsInnermost(const GroupForm &form) {
  const auto strides = stridesOfInput(form);
  return strides && strides->strides[1].isConstant(1);
}

/// Writes the views of a pool and the call of its kernel.
void emitPooling(llvm::StringRef kernel, const GroupQuery &in, const ConvProblem &window,
                 const std::string &config, StepWriter &out) {
  const GroupForm &form = in.form;
  auto plane = [&](const Strides &s) { return inPlane(s, window); };
  const auto places = planePlaces(window);
  const std::string x = operandView(out, form.anchorInputs[0], plane, places, "prologue");
  const std::string body = out.body(form.body, {form.anchor->result()->type().element()});
  SourceWriter &w = out.code();
  w.line("const auto x = " + x + ";");
  w.line("const auto outs = " + out.outputs(form, plane) + ";");
  w.line("const auto ins = " + inputsIn(out, form.body, plane, places) + ";");
  w.line("cpu::" + kernel.str() + "(" + config + ", x, outs, ins, " + body + ", *f.workers);");
}

struct PoolingRows {
  static constexpr llvm::StringLiteral
      id = "pooling_rows",
      summary = "largest element or mean of windows, along their rows and then across";
  struct Problem {
    GroupQuery in;
    ConvProblem window;
    bool columns;   // lanes run along the width
    int64_t length; // columns of x and the padding in front, or that windows reach
  };
  using Schedule = NoSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    return matchPool(in).andThen([&]() -> Result<Problem> {
      auto window = convProblem(*in.form.anchor, /*most=*/3);
      if (!window)
        return std::move(window).refusal();
      if (!in.level.family->facts.hosted)
        return Refusal{"lines too large for small stacks", ""};
      const ConvProblem &p = *window;
      const int64_t reach = (p.outWidth.upper() - 1) * p.strideW + 1;
      Problem problem{in, p, !hasChannelsInnermost(in.form),
                      std::max(reach, p.padLeft + p.inWidth.upper())};
      if (elements(problem) > kMostElements)
        return Refusal{
            "rows of " + std::to_string(problem.length) + " columns, too long for the stack", ""};
      return problem;
    });
  }

  /// Loads that fold, at two a cycle; a line that is written and read back for every row.
  static double microseconds(const Problem &problem, const Schedule &) {
    const ConvProblem &p = problem.window;
    const Operation &op = *problem.in.form.anchor;
    const double lanes = double(width(problem));
    const double channels = double(op.operand(0)->type().dim(1).upper());
    const double depth = p.isVolume() ? double(p.outDepth.upper()) : 1;
    const double rows = double(p.batch.upper()) * depth * double(p.outHeight.upper());
    const double along = p.kernelW > 8 ? 4 * std::log2(double(p.kernelW)) : double(p.kernelW);
    const double loads = double(p.kernelD * p.kernelH + 2) * double(p.inWidth.upper()) +
                         (along + 1) * double(p.outWidth.upper());
    // Columns in more than two parts are stored one by one.
    const double scalars =
        problem.columns && p.strideW > 2 ? double(p.inWidth.upper()) * lanes / 2 : 0;
    const double cycles = rows * channels * (loads + scalars) / lanes;
    return cycles / kLoadsPerMicrosecond +
           double(workOf(*problem.in.form.group).bytes) / (problem.in.level.bandwidthGBs * 1e3);
  }

  static void emit(const Problem &p, const Schedule &, StepWriter &out) {
    const GroupForm &form = p.in.form;
    const Operation &op = *form.anchor;
    out.include("cpu/pooling_rows.h");
    StepWriter::Config cfg(out, "config", "cpu::pooling_rows_defaults");
    writePooling(cfg, op, p.window);
    if (p.window.isVolume()) {
      writeDepth(cfg, p.window);
      const Ints &pads = op.intsAttr("pads");
      cfg.extent("pad_back", pads.empty() ? 0 : pads[3]);
    }
    cfg.flag("columns", p.columns).number("line", p.length);
    cfg.type("kind", "cpu::" + poolingKind(op).str());
    const Element e = poolingAccumulator(op);
    if (bitWidth(e) == 64)
      cfg.type("lanes", lanesType(width(p)));
    cfg.type("accumulator", cppElement(e));
    emitPooling("pooling_rows", p.in, p.window, cfg.finish(), out);
  }

private:
  static constexpr int64_t kMostElements = 1 << 15;
  /// Of the line, as pooled_line (runtime/cpu/pooling_rows.h) has it, to a vector.
  static int64_t elements(const Problem &p) {
    const int64_t lanes = width(p), parts = p.columns ? p.window.strideW : 1;
    const int64_t columns = p.length + (p.window.kernelW - 1) * p.window.dilationW;
    return parts * (int64_t(llvm::divideCeil(columns, parts)) + 3 * lanes) *
           (p.columns ? 1 : lanes);
  }
  static constexpr double kLoadsPerMicrosecond = 3300;
  static unsigned width(const Problem &p) {
    return lanesFor(p.in.level, poolingAccumulator(*p.in.form.anchor));
  }
};

struct Pooling {
  static constexpr llvm::StringLiteral
      id = "pooling",
      summary = "largest element or mean of windows, lanes along channels";
  struct Problem {
    GroupQuery in;
    ConvProblem window;
  };
  using Schedule = NoSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    return matchPool(in).andThen([&]() -> Result<Problem> {
      auto window = convProblem(*in.form.anchor);
      if (!window)
        return std::move(window).refusal();
      return Problem{in, *window};
    });
  }

  /// Loads that fold; one by one where the channels are not neighbours.
  static double microseconds(const Problem &p, const Schedule &) {
    return rooflineCost(
        p.in, hasChannelsInnermost(p.in.form) ? 0.1 : 0.1 / std::max(1u, p.in.level.simdWidth));
  }

  static void emit(const Problem &p, const Schedule &, StepWriter &out) {
    const GroupForm &form = p.in.form;
    const Operation &op = *form.anchor;

    out.include("cpu/pooling.h");
    StepWriter::Config cfg(out, "config", "cpu::pooling_defaults");
    writePooling(cfg, op, p.window);
    cfg.type("kind", "cpu::" + poolingKind(op).str());
    const Element e = poolingAccumulator(op);
    if (bitWidth(e) == 64)
      cfg.type("lanes", lanesType(lanesFor(p.in.level, e)));
    cfg.type("accumulator", cppElement(e));
    emitPooling("pooling", p.in, p.window, cfg.finish(), out);
  }
};

struct PoolingDirect {
  static constexpr llvm::StringLiteral id = "pooling_direct",
                                       summary = "pools of any rank, one window at a time";
  using Problem = GroupQuery;
  using Schedule = NoSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    return matchPool(in).andThen([&] { return Result<Problem>(in); });
  }

  static double microseconds(const Problem &p, const Schedule &) { return directCost(p); }

  static void emit(const Problem &p, const Schedule &, StepWriter &out) {
    const GroupForm &form = p.form;
    const Operation &op = *form.anchor;
    const auto rank = unsigned(form.body.space.size());
    out.include("cpu/window_direct.h");
    StepWriter::Config cfg(out, "config");
    writeWindow(cfg, op, op.intsAttr("kernel"));
    cfg.extent("channels", op.operand(0)->type().dim(1));
    cfg.type("kind", "cpu::" + poolingKind(op).str())
        .type("accumulator", cppElement(poolingAccumulator(op)));
    const std::string config = cfg.finish();
    auto same = [](const Strides &s) { return s; };
    const std::string x =
        operandView(out, form.anchorInputs[0], same, inPlaceDims(rank), "prologue");
    const std::string body = out.body(form.body, {op.result()->type().element()});
    SourceWriter &w = out.code();
    w.line("const auto x = " + x + ";");
    w.line("const auto outs = " + out.outputs(form) + ";");
    w.line("const auto ins = " + out.inputs(form.body) + ";");
    w.line("cpu::pooling_direct(" + config + ", x, outs, ins, " + body + ", *f.workers);");
  }
};

} // namespace

const Tactic &kPoolingRows = kTacticOf<PoolingRows>;
const Tactic &kPooling = kTacticOf<Pooling>;
const Tactic &kPoolingDirect = kTacticOf<PoolingDirect>;

} // namespace tenon::cpu
