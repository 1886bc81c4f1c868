// Defines the tactics of pools: `pooling` (1-d and 2-d, runtime/cuda/pooling.cuh) and `pooling_any`
// (any number of spatial dimensions, runtime/cuda/pooling_any.cuh).
#include "codegen/cuda/Tactics.h"

#include "codegen/AnchorForms.h"
#include "codegen/Work.h"
#include "codegen/cuda/Common.h"

namespace tenon::cuda {
namespace {

bool matchAny(const TacticInput &in, std::string &why) {
  return matchAnchor(in, Op::Pool, why) && isUnbounded(in.form.anchorInputs[0], why) &&
         fitsInt(in.form, why);
}

bool matchPooling(const TacticInput &in, std::string &why) {
  if (!matchAny(in, why))
    return false;
  return convProblem(*in.form.anchor, why) && isPlainBody(in.form.body, why);
}

void enumeratePooling(const TacticInput &in, llvm::SmallVectorImpl<Schedule> &out) {
  std::string why;
  const int64_t along = runsAlong(in.form, *convProblem(*in.form.anchor, why));
  for (int64_t vector : {std::min<int64_t>(8, vectorLength(in.form)), int64_t(1)})
    if (out.empty() || along == 1)
      out.push_back({"pooling", {{"along", along}, {"vector", along == 3 ? 1 : vector}}});
}
void enumerateAny(const TacticInput &, llvm::SmallVectorImpl<Schedule> &out) {
  out.push_back({"pooling_any", {}});
}

double costOf(const TacticInput &in, double vector, double penalty, double bytes = 1.5) {
  const Work w = workOf(*in.form.group);
  Effort e;
  e.bytes = double(w.bytes) * bytes;
  e.operations = w.flops * 2;
  e.efficiency = 0.1 * penalty;
  e.blocks = double(in.form.anchor->result()->type().upperElements()) / (128 * vector);
  return microseconds(in.level, e);
}
/// Single elements do not use the whole bandwidth. Source: ResNet-50's pooling on one H200 takes
/// 2.5 us at batch 1 and 5.6 at batch 8 in vectors of eight, 3.0 and 21 in single elements.
double costPooling(const TacticInput &in, const Schedule &s) {
  const double vector = double(*s.get("vector"));
  return vector > 1 ? costOf(in, vector, 1) : costOf(in, vector, 0.5, 3);
}
double costAny(const TacticInput &in, const Schedule &) { return costOf(in, 1, 0.2, 6); }

void emitCall(const TacticInput &in, StepWriter &out, llvm::StringRef kernel,
              const std::string &config, StepWriter::Change change, llvm::ArrayRef<int> places) {
  const GroupForm &form = in.form;
  const std::string x = operandView(out, form.anchorInputs[0], change, places, "prologue");
  const std::string body = out.body(form.body, {form.anchor->result()->type().element()});
  out.code().line("const auto x = " + x + ";");
  out.code().line("const auto outs = " + out.outputs(form, change) + ";");
  out.code().line("const auto ins = " + inputsIn(out, form.body, change, places) + ";");
  launch(out, kernel, {config, "x", "outs", "ins", body});
}

void emitPooling(const TacticInput &in, const Schedule &s, StepWriter &out) {
  const Operation &op = *in.form.anchor;
  std::string why;
  const ConvProblem p = *convProblem(op, why);
  out.include("cuda/pooling.cuh");
  StepWriter::Config cfg(out, "config", "cuda::window_defaults");
  writePooling(cfg, op, p);
  cfg.type("kind", "cuda::" + poolingKind(op).str())
      .type("accumulator", cppElement(poolingAccumulator(op)));
  for (auto &[key, value] : s.params)
    cfg.number(key, value);
  const std::string config = cfg.finish();
  emitCall(
      in, out, "pooling", config, [&](const Strides &x) { return inPlane(x, p); }, planePlaces(p));
}

void emitAny(const TacticInput &in, const Schedule &, StepWriter &out) {
  const Operation &op = *in.form.anchor;
  const Type x = op.operand(0)->type();
  const size_t spatial = x.rank() - 2;
  out.include("cuda/pooling_any.cuh");
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

} // namespace

const Tactic kPooling = {"pooling",    "largest element or mean of windows",
                         matchPooling, enumeratePooling,
                         costPooling,  nullptr,
                         nullptr,      emitPooling};
const Tactic kPoolingAny = {"pooling_any", "pools of any rank, one window per thread",
                            matchAny,      enumerateAny,
                            costAny,       nullptr,
                            nullptr,       emitAny};

} // namespace tenon::cuda
