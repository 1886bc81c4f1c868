// Defines the tactics `conv`, `conv_dot` and `depthwise`: float convolutions with fused epilogues
// on runtime/cpu/conv.h, conv_dot.h and depthwise.h; and `conv_i8`, the first of these kernels with
// 8-bit integers, widened as they are loaded, and exact 32-bit sums.
#include "codegen/core/TargetFamily.h"
#include "codegen/core/Work.h"
#include "codegen/cpu/conv/Problem.h"
#include "codegen/cpu/shared/Tile.h"
#include "ir/Context.h"

#include "llvm/Support/MathExtras.h"

namespace tenon::cpu {
namespace {

template <bool Int8> struct Blocked {
  static constexpr llvm::StringLiteral
      id = Int8 ? llvm::StringLiteral("conv_i8") : llvm::StringLiteral("conv"),
      summary = Int8 ? llvm::StringLiteral("convolution of 8-bit integers with exact 32-bit sums")
                     : llvm::StringLiteral("register-blocked direct convolution");
  using Problem = WindowProblem;
  using Schedule = TileSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    return windowProblem(in, Int8 ? Factors::Bytes : Factors::Floats, /*most=*/3);
  }

  static void candidates(const Problem &problem, std::vector<Schedule> &out) {
    const ConvProblem &p = problem.conv;
    const Dim most = problem.columns();
    const Dim rows = hasPatches(problem) ? most : most.node()->context->dim(1);
    // Blocks of filters must not straddle groups.
    for (const TileShape &t :
         tileShapes(rows, p.filters, p.groups == 1 ? problem.width() : groupWidth(problem),
                    problem.in.level.simdRegisters))
      if (p.groups == 1 || p.filters % t.nr == 0)
        out.push_back({t});
  }
  static Result<> legal(const Problem &problem, const Schedule &s) {
    const ConvProblem &p = problem.conv;
    if (p.groups > 1 && p.filters % s.nr != 0)
      return impossible<Blocked>(s, "nr does not divide the " + std::to_string(p.filters) +
                                        " filters of a group");
    if (s.mr > 1 && !hasPatches(problem))
      return impossible<Blocked>(s, "mr above 1 takes a patch on the stack, which is small here");
    return fitsRegisters(printSchedule(id, s), problem.in.level, s, lanesOf(problem, s), 0);
  }

  static double microseconds(const Problem &problem, const Schedule &s) {
    const ConvProblem &p = problem.conv;
    // Vectors of bytes are widened twice, single ones in other registers: some four instructions
    // for one of floats (aarch64, counted).
    const double widening = Int8 && problem.width() > 1 ? 4 : 1;
    return widening * storageCost(problem.in) *
               tileCost(problem.in.level, s, lanesOf(problem, s), problem.columns(), p.filters,
                        double(p.channels * p.taps()),
                        double(p.batch.upper()) * problem.rows() * double(p.groups)) +
           problem.moving();
  }

  static void pack(const Problem &p, const Schedule &s, llvm::SmallVectorImpl<Packing> &out) {
    packWeights(p, s.nr, /*channelsFirst=*/false, out);
  }

  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    WindowCall call{"conv", printedOf(s)};
    call.pixelsOuter = pixelsOuter(p, s);
    call.lanes = lanesOf(p, s);
    emitWindow(p, call, out);
  }

private:
  /// Lanes that the filters of a group fill: a vector, or a part of one with registers of its own.
  static unsigned groupWidth(const Problem &p) {
    constexpr unsigned least = 4;
    const auto width = unsigned(llvm::GreatestCommonDivisor64(p.width(), p.conv.filters));
    return width < least ? 1 : width;
  }
  /// Single columns need no patch with zeros on the stack of a microcontroller.
  static bool hasPatches(const Problem &p) { return p.in.level.family->facts.hosted; }
  /// Columns that are no whole vectors are taken one by one.
  static unsigned lanesOf(const Problem &p, const Schedule &s) {
    for (unsigned width : {p.width(), groupWidth(p)})
      if (s.nr % width == 0)
        return width;
    return 1;
  }
  /// Whether tiles of pixels are the outer loop: where one block of weights does not stay in the
  /// first cache anyway but all of them do in the second, the image is then read and written once.
  /// So it is where groups share its lines.
  static bool pixelsOuter(const Problem &problem, const Schedule &s) {
    const ConvProblem &p = problem.conv;
    const int64_t depth = 4 * p.channels * p.taps();
    return (depth * s.nr > (24 << 10) || (p.groups > 1 && p.filters < problem.width())) &&
           depth * p.groups * p.filters <= (512 << 10);
  }
};

struct Dot {
  static constexpr llvm::StringLiteral id = "conv_dot",
                                       summary =
                                           "convolution with few filters, lanes along the taps";
  using Problem = WindowProblem;
  using Schedule = TileSchedule;

  /// Few filters, so that lanes along them would stay empty.
  static Result<Problem> match(const GroupQuery &in) {
    auto p = windowProblem(in, Factors::Floats, /*most=*/2);
    if (!p)
      return p;
    if (p->conv.groups != 1)
      return Refusal{"several groups", ""};
    if (p->conv.dilationW != 1)
      return Refusal{"a dilation along the width", ""};
    if (p->conv.filters > 4 || p->conv.kernelW * p->conv.channels < in.level.simdWidth)
      return Refusal{"many filters, or short runs of taps", ""};
    if (in.level.simdWidth == 1)
      return Refusal{"no vectors", ""};
    return p;
  }

  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    for (int64_t nr : {4, 3, 2, 1})
      if (p.conv.filters % nr == 0) {
        const int64_t most = (int64_t(p.in.level.simdRegisters) - kOperands) / nr;
        out.push_back({{evenColumns(p.columnsOfImage(), std::min<int64_t>(16, most)), nr}});
        return;
      }
  }
  static Result<> legal(const Problem &p, const Schedule &s) {
    if (p.conv.filters % s.nr != 0)
      return impossible<Dot>(s, "nr does not divide the " + std::to_string(p.conv.filters) +
                                    " filters");
    return fitsRegisters(printSchedule(id, s), p.in.level, s, 1, kOperands);
  }

  /// Whole vectors of taps at the rate of unaligned loads (half of the peak), and some eight
  /// instructions to add the lanes of each output.
  static double microseconds(const Problem &problem, const Schedule &) {
    const ConvProblem &p = problem.conv;
    const int64_t width = problem.width();
    const double outputs = double((p.batch * p.outHeight * p.outWidth).upper()) * double(p.filters);
    const double vectors =
        double(p.kernelH) * double(llvm::divideCeil(p.kernelW * p.channels, width)) + 4;
    return 2 * outputs * vectors * double(width) / (problem.in.level.peakGflops * 0.45e3) +
           problem.moving();
  }

  static void pack(const Problem &p, const Schedule &, llvm::SmallVectorImpl<Packing> &out) {
    packWeights(p, 0, /*channelsFirst=*/false, out);
  }

  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    WindowCall call{"conv_dot", printedOf(s)};
    call.dot = true;
    emitWindow(p, call, out);
  }

private:
  /// Registers beside the sums.
  static constexpr int64_t kOperands = 6;
};

struct Depthwise {
  static constexpr llvm::StringLiteral id = "depthwise",
                                       summary = "depthwise convolution, lanes along channels";
  using Problem = WindowProblem;
  using Schedule = RowSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    auto p = windowProblem(in, Factors::Floats, /*most=*/3);
    if (!p)
      return p;
    if (!p->conv.isDepthwise())
      return Refusal{"not depthwise", ""};
    if (!in.form.anchorInputs[0].isPlainRead())
      return Refusal{"a prologue on the input", ""};
    return p;
  }

  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    const int64_t most = int64_t(p.in.level.simdRegisters) - operands(p);
    // Beside eight taps at a time, more outputs share a loaded column.
    const int64_t columns = p.conv.kernelW > kTapsAtOnce ? 14 : 8;
    out.push_back({evenColumns(p.columnsOfImage(), std::min(columns, most))});
  }
  static Result<> legal(const Problem &p, const Schedule &s) {
    return fitsRegisters(printSchedule(id, s), p.in.level, {s.mr, 1}, 1, operands(p));
  }

  static double microseconds(const Problem &p, const Schedule &) {
    const Work w = workOf(*p.in.form.group);
    return std::max(w.flops / (p.in.level.peakGflops * 0.25e3),
                    double(w.bytes) / (p.in.level.bandwidthGBs * 1e3));
  }

  static void pack(const Problem &p, const Schedule &, llvm::SmallVectorImpl<Packing> &out) {
    packWeights(p, p.width(), /*channelsFirst=*/true, out);
  }

  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    WindowCall call{"depthwise", printedOf(s)};
    call.depthwise = true;
    emitWindow(p, call, out);
  }

private:
  static constexpr int64_t kTapsAtOnce = 8;
  /// Registers beside the sums: taps of a row, an element, a bound.
  static int64_t operands(const Problem &p) { return std::min(p.conv.kernelW, kTapsAtOnce) + 2; }
};

} // namespace

const Tactic &kConv = kTacticOf<Blocked<false>>;
const Tactic &kConvInt8 = kTacticOf<Blocked<true>>;
const Tactic &kConvDot = kTacticOf<Dot>;
const Tactic &kDepthwise = kTacticOf<Depthwise>;

} // namespace tenon::cpu
