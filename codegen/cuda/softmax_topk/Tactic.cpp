// Defines the tactic `softmax_topk`: the largest elements along one dimension of a softmax as one
// kernel (runtime/cuda/softmax_topk/kernel.cuh).
#include "codegen/core/TacticOf.h"
#include "codegen/core/Work.h"
#include "codegen/cuda/shared/Common.h"
#include "codegen/emit/CppText.h"
#include "codegen/forms/AnchorForms.h"

#include <algorithm>
#include <cmath>

namespace tenon::cuda {
namespace {

constexpr int64_t kWarp = 32, kLongestRun = 32; // elements of a lane

bool isSoftmax(const Operation &op) { return op.is(Op::Softmax); }
bool isTopK(const Operation &op) { return op.is(Op::TopK); }

struct SoftmaxTopKSchedule {
  int64_t warps; // of a block, each with a row

  static llvm::ArrayRef<Field<SoftmaxTopKSchedule>> fields() {
    static const Field<SoftmaxTopKSchedule> kFields[] = {
        {"warps", &SoftmaxTopKSchedule::warps, oneOf(1, 2, 4, 8)},
    };
    return kFields;
  }
};

/// Microseconds.
struct SoftmaxTopKCosts {
  double fetch;    // memory, folds and exponentials
  double exchange; // a result's shuffles, however few the warps
  double look;     // the same for each element of a lane
  double turn;     // a result of one warp where a multiprocessor has many
  double issued;   // the same for each element of a lane
  double block;    // the start of each block of a multiprocessor
  static constexpr llvm::StringLiteral family = "softmax_topk";
};
constexpr SoftmaxTopKCosts kCosts = {
#include "codegen/cuda/softmax_topk/costs.inc"
};

struct SoftmaxTopK : PricedBy<kCosts> {
  static constexpr llvm::StringLiteral id = "softmax_topk",
                                       summary = "the largest elements of a softmax of short rows";
  static constexpr ChainPart kParts[] = {{isSoftmax, 1}, {isTopK, 1}};
  static constexpr Chain chains[] = {
      {"fuse.softmax-topk", "the largest elements of what a softmax makes", kParts}};
  struct Problem {
    GroupQuery in;
    int64_t rows, length, k; // at most

    const GroupForm &softmax() const { return in.form.before[0]; }
    int64_t run() const { return std::max<int64_t>(1, ceilDiv(length, kWarp)); }
  };
  using Schedule = SoftmaxTopKSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    const GroupForm &form = in.form;
    if (form.before.size() != 1 || !isSoftmax(*form.before[0].anchor))
      return Refusal{"no softmax before the largest elements", ""};
    const GroupForm &softmax = form.before[0];
    auto taken = matchAnchor(in, Op::TopK)
                     .andThen([&] { return isUnbounded(softmax.anchorInputs[0]); })
                     .andThen([&] { return fitsInt(softmax); })
                     .andThen([&] { return fitsInt(form); });
    if (!taken)
      return std::move(taken).refusal();
    const Type y = softmax.anchor->result()->type();
    const int64_t axis = form.anchor->intAttr("axis");
    if (!softmax.bodyIsIdentity() || !isReadInPlace(form.anchorInputs[0], y) ||
        softmax.anchor->intAttr("axis") != axis)
      return Refusal{"something between the softmax and its largest elements", ""};
    if (bitWidth(y.element()) > 32)
      return Refusal{"the elements have more than 32 bits", ""};
    const int64_t length = y.dim(unsigned(axis)).upper();
    if (length > kWarp * kLongestRun)
      return Refusal{"a row is longer than what a warp holds", ""};
    return Problem{in, y.upperElements() / std::max<int64_t>(1, length), length,
                   form.anchor->dimsAttr("k")[0].upper()};
  }

  static void candidates(const Problem &, std::vector<Schedule> &out) { out = {{4}, {1}}; }

  /// Whoever has a multiprocessor to itself waits for its instructions one after the other; where
  /// warps are many, they take turns.
  static double microseconds(const Problem &p, const Schedule &s, const SoftmaxTopKCosts &c) {
    constexpr double kMostWarps = 64, kMostBlocks = 32; // of a multiprocessor at a time
    const double run = double(p.run()), k = double(p.k), warps = double(s.warps);
    const double blocks =
        std::ceil(std::ceil(double(p.rows) / warps) / std::max(1u, p.in.level.multiprocessors));
    const double rounds = std::ceil(blocks / std::min(kMostBlocks, kMostWarps / warps));
    const double waiting = rounds * k * (c.exchange + run * c.look),
                 turns = blocks * warps * k * (c.turn + run * c.issued);
    Effort e;
    e.bytes = double(workOf(*p.in.form.group).bytes);
    e.launches = 0;
    return cuda::microseconds(p.in.level, e) + c.fetch + std::max(waiting, turns) +
           c.block * blocks;
  }

  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    const GroupForm &form = p.in.form;
    const Operation &op = *form.anchor;
    const Type y = op.operand(0)->type();
    const AxisLast last = axisLast(y, unsigned(op.intAttr("axis")));
    llvm::SmallVector<Dim, 6> space = last.others;
    space.push_back(y.dim(last.axis));
    out.include("cuda/softmax_topk/kernel.cuh");
    StepWriter::Config cfg(out, "config");
    cfg.extents("space", space).extent("k", op.dimsAttr("k")[0]);
    cfg.flag("largest", op.boolAttr("largest", true));
    cfg.flag("log", p.softmax().anchor->boolAttr("log"));
    cfg.number("warps", s.warps).number("run", p.run());
    const std::string config = cfg.finish();
    const std::string body =
        declareOperands(out, form, p.softmax().anchorInputs[0], last, last.placeOf);
    launch(out, "softmax_topk<" + cppElement(y.element()).str() + ">",
           {config, "x", "outs", "ins", body});
  }

private:
  /// Whether a program reads what the chain makes, of the type `made`, point by point.
  static bool isReadInPlace(const ScalarProgram &program, Type made) {
    if (!program.isPlainRead() || program.inputs[0].source->argumentOf() ||
        program.inputs[0].type.shape() != made.shape())
      return false;
    const auto &dims = program.inputs[0].dims;
    for (size_t d = 0; d < dims.size(); ++d)
      if (!made.dim(unsigned(d)).isConstant(1) && (dims[d].dim != int(d) || dims[d].step != 1))
        return false;
    return true;
  }
};

} // namespace

const Tactic &kSoftmaxTopK = kTacticOf<SoftmaxTopK>;

} // namespace tenon::cuda
