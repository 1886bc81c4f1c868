// Defines the tactics of pools: `pooling` (1-d and 2-d, runtime/cuda/pool/kernel.cuh) and
// `pooling_any` (any number of spatial dimensions, runtime/cuda/pool/any.cuh).
#include "codegen/core/TacticOf.h"
#include "codegen/core/Work.h"
#include "codegen/cuda/shared/Common.h"
#include "codegen/forms/AnchorForms.h"

namespace tenon::cuda {
namespace {

Result<> matchAny(const GroupQuery &in) {
  return matchAnchor(in, Op::Pool)
      .andThen([&] { return isUnbounded(in.form.anchorInputs[0]); })
      .andThen([&] { return fitsInt(in.form); });
}

double microsecondsOf(const GroupQuery &in, double vector, double penalty, double bytes = 1.5) {
  const Work w = workOf(*in.form.group);
  Effort e;
  e.bytes = double(w.bytes) * bytes;
  e.operations = w.flops * 2;
  e.efficiency = 0.1 * penalty;
  e.blocks = double(in.form.anchor->result()->type().upperElements()) / (128 * vector);
  return microseconds(in.level, e);
}

void emitCall(const GroupQuery &in, StepWriter &out, llvm::StringRef kernel,
              const std::string &config, StepWriter::Change change, llvm::ArrayRef<int> places) {
  const std::string body = declareOperands(out, in.form, in.form.anchorInputs[0], change, places);
  launch(out, kernel, {config, "x", "outs", "ins", body});
}

struct Pooling {
  static constexpr llvm::StringLiteral id = "pooling",
                                       summary = "largest element or mean of windows";
  struct Problem {
    GroupQuery in;
    ConvProblem plane;
  };
  using Schedule = WindowSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    return matchAny(in).andThen([&]() -> Result<Problem> {
      const Result<ConvProblem> plane = convProblem(*in.form.anchor);
      if (!plane)
        return plane.refusal();
      return isPlainBody(in.form.body).andThen([&]() -> Result<Problem> {
        return Problem{in, *plane};
      });
    });
  }
  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    Schedule::candidates(p.in.form, p.plane, out);
    if (Schedule four{3, 4}; slides(p, four) && runsAlong(p.in.form, p.plane) == 3)
      out.push_back(four);
  }
  /// Whether the windows of a thread's run share columns.
  static bool slides(const Problem &p, const Schedule &s) {
    return s.along == 3 && s.vector > 1 && p.plane.strideW == 1 && p.plane.dilationW == 1 &&
           p.plane.kernelW >= s.vector && p.plane.inWidth.lower() > 0;
  }
  static Result<> legal(const Problem &, const Schedule &) { return Accepted{}; }

  /// Single elements do not use the whole bandwidth. Source: ResNet-50's pooling on one H200 takes
  /// 2.5 us at batch 1 and 5.6 at batch 8 in vectors of eight, 3.0 and 21 in single elements.
  static double microseconds(const Problem &p, const Schedule &s) {
    return s.vector > 1 ? microsecondsOf(p.in, double(s.vector), 1)
                        : microsecondsOf(p.in, 1, 0.5, 3);
  }

  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    const Operation &op = *p.in.form.anchor;
    out.include("cuda/pool/kernel.cuh");
    StepWriter::Config cfg(out, "config", "cuda::window_defaults");
    writePooling(cfg, op, p.plane);
    cfg.type("kind", "cuda::" + poolingKind(op).str())
        .type("accumulator", cppElement(poolingAccumulator(op)));
    for (const auto &[key, value] : membersOf(s))
      cfg.number(key, value);
    if (slides(p, s))
      cfg.flag("slides", true);
    const std::string config = cfg.finish();
    emitCall(
        p.in, out, "pooling", config, [&](const Strides &x) { return inPlane(x, p.plane); },
        planePlaces(p.plane));
  }
};

struct PoolingAny {
  static constexpr llvm::StringLiteral id = "pooling_any",
                                       summary = "pools of any rank, one window per thread";
  using Problem = GroupQuery;
  using Schedule = NoSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    return matchAny(in).andThen([&]() -> Result<Problem> { return in; });
  }
  static double microseconds(const Problem &in, const Schedule &) {
    return microsecondsOf(in, 1, 0.2, 6);
  }

  static void emit(const Problem &in, const Schedule &, StepWriter &out) {
    const Operation &op = *in.form.anchor;
    const Type x = op.operand(0)->type();
    const size_t spatial = x.rank() - 2;
    out.include("cuda/pool/any.cuh");
    auto list = [&](llvm::StringRef name, int64_t otherwise, size_t from) {
      const Ints &all = op.intsAttr(name);
      llvm::SmallVector<Dim, 3> dims;
      for (size_t d = 0; d < spatial; ++d)
        dims.push_back(x.context().dim(all.empty() ? otherwise : all[from + d]));
      return dims;
    };
    StepWriter::Config cfg(out, "config");
    cfg.extents("space", in.form.body.space).extents("in", x.shape().drop_front(2));
    cfg.extents("kernel", list("kernel", 1, 0)).extents("strides", list("strides", 1, 0));
    cfg.extents("dilations", list("dilations", 1, 0)).extents("pads", list("pads", 0, 0));
    cfg.extents("pads_end", list("pads", 0, spatial));
    cfg.type("kind", "cuda::" + poolingKind(op).str())
        .type("accumulator", cppElement(poolingAccumulator(op)));
    const std::string config = cfg.finish();
    emitCall(
        in, out, "pooling_any", config, [](const Strides &s) { return s; }, inPlaceDims(x.rank()));
  }
};

} // namespace

const Tactic &kPooling = kTacticOf<Pooling>;
const Tactic &kPoolingAny = kTacticOf<PoolingAny>;

} // namespace tenon::cuda
