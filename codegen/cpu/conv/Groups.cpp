// Defines the tactic `conv_groups`: float convolutions in groups of few filters, side by side in
// the lanes of a vector (runtime/cpu/conv_groups.h).
#include "codegen/core/Bytes.h"
#include "codegen/core/TargetFamily.h"
#include "codegen/cpu/conv/Problem.h"
#include "codegen/cpu/shared/Tile.h"

#include "llvm/Support/MathExtras.h"

namespace tenon::cpu {
namespace {

struct Groups {
  static constexpr llvm::StringLiteral
      id = "conv_groups",
      summary = "convolution in groups, those of few filters side by side";
  using Problem = WindowProblem;
  using Schedule = RowSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    auto p = windowProblem(in, Factors::Floats, /*most=*/3);
    if (!p)
      return p;
    if (p->conv.groups == 1)
      return Refusal{"one group", ""};
    if (p->conv.isDepthwise())
      return Refusal{"depthwise", ""};
    if (p->width() == 1 || !in.level.family->facts.hosted)
      return Refusal{"no vectors", ""};
    if (!in.form.anchorInputs[0].isPlainRead())
      return Refusal{"a prologue on the input", ""};
    return p;
  }

  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    const int64_t most = int64_t(p.in.level.simdRegisters) - kOperands;
    // A patch in the first cache, and a larger one that walks fewer columns twice.
    for (int64_t columns : {most / 2, most}) {
      const Schedule s{evenColumns(columnsOf(p), columns)};
      if (out.empty() || out.back().mr != s.mr)
        out.push_back(s);
    }
  }
  static Result<> legal(const Problem &p, const Schedule &s) {
    if (patchBytes(p, s) > kMostBytes)
      return impossible<Groups>(s, "its patch takes " + formatBytes(patchBytes(p, s)) +
                                       " of stack, of " + formatBytes(kMostBytes));
    return fitsRegisters(printSchedule(id, s), p.in.level, {s.mr, 1}, 1, kOperands);
  }

  /// Multiply-adds whose one operand comes from the patch, and the stores that fill it.
  static double microseconds(const Problem &problem, const Schedule &s) {
    const ConvProblem &p = problem.conv;
    const int64_t width = problem.width();
    const double units = double(p.batch.upper()) * problem.rows() *
                         double(llvm::divideCeil(p.groups * p.filters, width)) *
                         double(llvm::divideCeil(columnsOf(problem), s.mr));
    const double products = double(s.mr * p.taps() * p.channels);
    const bool keepsRows = p.dilationH == 1 && p.strideH < p.kernelH;
    const double spread =
        double(span(p, s) * p.channels * p.kernelD) * double(keepsRows ? p.strideH : p.kernelH);
    // As fitted to kernels of an EPYC and a Xeon with AVX-512, against the same of conv: an operand
    // from memory, few sums that wait for each other, a patch beyond the first cache; some three
    // stores for a run.
    const double pace =
        1.27 * std::max(1.0, 8.0 / double(s.mr)) * (patchBytes(problem, s) > (32 << 10) ? 1.5 : 1);
    const double stores =
        2.8 * double(width) / double(llvm::GreatestCommonDivisor64(width, p.filters));
    const double vectors = problem.in.level.peakGflops * 1e3 / double(2 * width); // a microsecond
    return units * (products * pace + spread * stores) / vectors + problem.moving();
  }

  static void pack(const Problem &p, const Schedule &, llvm::SmallVectorImpl<Packing> &out) {
    packWeights(p, p.width(), /*channelsFirst=*/false, out);
  }

  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    emitWindow(p, {"conv_groups", printedOf(s)}, out);
  }

private:
  /// Registers beside the sums, and bytes that a patch may take of a thread's stack.
  static constexpr int64_t kOperands = 4, kMostBytes = 512 << 10;

  static int64_t columnsOf(const Problem &p) { return std::max<int64_t>(1, p.columns().upper()); }
  static int64_t span(const ConvProblem &p, const Schedule &s) {
    return (s.mr - 1) * p.strideW + (p.kernelW - 1) * p.dilationW + 1;
  }
  static int64_t patchBytes(const Problem &problem, const Schedule &s) {
    const ConvProblem &p = problem.conv;
    return p.kernelD * p.kernelH * span(p, s) * p.channels * problem.width() *
           int64_t(bitWidth(problem.sums()) / 8);
  }
};

} // namespace

const Tactic &kConvGroups = kTacticOf<Groups>;

} // namespace tenon::cpu
