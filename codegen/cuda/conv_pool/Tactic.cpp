// Defines the tactic `conv_pool_sm90a`: the first layer of a network by warpgroups, and the largest
// elements of windows of what it makes, as one kernel (runtime/cuda/conv_pool/kernel.cuh).
#include "codegen/cuda/shared/WidePatch.h"

#include "codegen/emit/CppText.h"
#include "codegen/forms/AnchorForms.h"

namespace tenon::cuda {
namespace {

struct PoolCosts : WidePatchCosts {
  static constexpr llvm::StringLiteral family = "conv_pool";
};
constexpr PoolCosts kCosts = {{
#include "codegen/cuda/conv_pool/costs.inc"
}};

bool isConv(const Operation &op) { return op.is(Op::Conv); }
bool isMaxPool(const Operation &op) { return op.is(Op::Pool) && op.wordAttr("kind") == "max"; }

/// Whether the kernel knows such windows of what the convolution makes.
Result<> takesPool(const ConvProblem &conv, const ConvProblem &pool, const TargetLevel &level) {
  const int64_t overlap = pool.kernelH - pool.strideH;
  if (pool.dilationH != 1 || pool.dilationW != 1 || overlap < 0 || overlap > 1 || pool.kernelW > 8)
    return Refusal{"windows of " + std::to_string(pool.kernelH) + "x" +
                       std::to_string(pool.kernelW) + ", " + std::to_string(pool.strideH) +
                       " rows apart",
                   ""};
  if (widePatchTilesOf(conv, &pool, level).empty())
    return Refusal{"a window of another form than patches are read in", ""};
  return Accepted{};
}

struct ConvPool : PricedBy<kCosts> {
  static constexpr llvm::StringRef id = "conv_pool_sm90a",
                                   summary = "fp16 and bf16 convolution of few channels by "
                                             "warpgroups, and the largest elements of its windows";
  static constexpr ChainPart kParts[] = {{isConv, 1}, {isMaxPool, 1}};
  static constexpr Chain chains[] = {
      {"fuse.conv-pool",
       "the largest elements of windows of what a convolution of few channels makes", kParts}};
  struct Problem {
    GroupQuery in;
    ContractionProblem convolution;
    ConvProblem pool;
  };
  using Schedule = WidePatchSchedule;

  static bool forTensorCores(const GroupQuery &in) {
    return !in.form.before.empty() && in.form.before[0].anchor->is(Op::Conv) && hasWgmma(in.level);
  }

  static Result<Problem> match(const GroupQuery &in) {
    const GroupForm &form = in.form;
    if (form.before.size() != 1 || !form.anchor || !isMaxPool(*form.anchor))
      return Refusal{"not the largest elements of windows of a convolution", ""};
    const GroupForm &before = form.before[0];
    if (!before.anchor->is(Op::Conv))
      return Refusal{"no convolution before the windows", ""};
    auto conv = readFirstLayer({before, in.level, in.alignment});
    if (!conv)
      return std::move(conv).refusal();
    const auto pool = convProblem(*form.anchor);
    if (!pool)
      return pool.refusal();
    auto taken = takesPool(conv->c.conv, *pool, in.level)
                     .andThen([&] { return isOfChannels(before.body); })
                     .andThen([&] { return isPlainBody(form.body); })
                     .andThen([&] { return fitsInt(form); });
    if (!taken)
      return std::move(taken).refusal();
    const ScalarProgram &x = form.anchorInputs[0];
    if (!x.isPlainRead() || x.inputs[0].source->argumentOf() ||
        bitWidth(x.nodes[x.outputs[0]].element) != 16 || !isFloat(x.nodes[x.outputs[0]].element))
      return Refusal{"windows of something else than what the convolution makes, in 16 bits", ""};
    return Problem{in, *std::move(conv), *pool};
  }
  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    out = widePatchTilesOf(p.convolution.c.conv, &p.pool, p.in.level);
  }
  static Result<> legal(const Problem &p, const Schedule &s) {
    return isWidePatchLegal(p.convolution.c.conv, s, &p.pool, p.in.level, printSchedule(id, s));
  }

  static double microseconds(const Problem &p, const Schedule &s, const PoolCosts &costs) {
    const ConvProblem &conv = p.convolution.c.conv, &pool = p.pool;
    const WidePatchTiles t(s, &pool);
    const int64_t windows = t.h / t.consumers,
                  rows = windows * pool.strideH + pool.kernelH - pool.strideH,
                  across = (kWidePatchW - pool.kernelW) / pool.strideW + 1;
    const double row = costs.row + costs.step * double(t.geometry(conv).steps());
    return timeOfWidePatches(
        p.in, conv, t, costs, double(rows) * row + double(windows) * costs.column * double(t.n),
        ceilDiv(pool.outHeight.upper(), t.h) * ceilDiv(pool.outWidth.upper(), across), 1, 1);
  }

  static KeyValues computed(const Problem &p, const Schedule &) {
    return {{"multiprocessors", p.in.level.multiprocessors}};
  }
  static void pack(const Problem &p, const Schedule &s, llvm::SmallVectorImpl<Packing> &out) {
    packPatchWeights(p.convolution.in.form,
                     WidePatchTiles(s, &p.pool).geometry(p.convolution.c.conv).patch, out);
  }

  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    const GroupForm &conv = p.convolution.in.form;
    const auto overWindows = [&](const Strides &x) { return inPlane(x, p.pool); };
    out.include("cuda/conv_pool/kernel.cuh");
    ContractionCall call(p.convolution.in, p.convolution.c, membersOf(s, computed(p, s)), out);
    call.cfg.number("pool_h", p.pool.kernelH).number("pool_w", p.pool.kernelW);
    call.cfg.number("pool_stride_h", p.pool.strideH).number("pool_stride_w", p.pool.strideW);
    call.cfg.number("pool_top", p.pool.padTop).number("pool_left", p.pool.padLeft);
    call.cfg.extent("pooled_h", p.pool.outHeight).extent("pooled_w", p.pool.outWidth);
    const bool aligned = areResultsAligned(p.in.form, out, overWindows) &&
                         areInputsAligned(conv.body, out, call.over);
    const std::string config = call.finish(aligned);
    const std::string front =
        out.body(conv.body, {conv.anchor->result()->type().element()}, "front");
    const Element made = p.in.form.anchor->operand(0)->type().element();
    const std::string body =
        out.body(p.in.form.body, {p.in.form.anchor->result()->type().element()});
    call.writeOperands();
    out.code().line("const auto front_ins = " + out.inputs(conv.body, call.over) + ";");
    out.code().line("const auto outs = " + out.outputs(p.in.form, overWindows) + ";");
    out.code().line("const auto ins = " + out.inputs(p.in.form.body, overWindows) + ";");
    std::vector<std::string> arguments = {config, "x",    "w",   "front_ins",
                                          front,  "outs", "ins", body};
    call.appendPrologue(arguments);
    launch(out, "conv_pool_sm90<" + cppElement(made).str() + ">", arguments);
  }
};

} // namespace

const Tactic &kConvPoolSm90a = kTacticOf<ConvPool>;

} // namespace tenon::cuda
