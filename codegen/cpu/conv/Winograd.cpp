// Defines the tactic `conv_winograd_f4` of C++ targets: float convolutions of 3 x 3 taps at stride
// 1 with fewer multiplications (runtime/cpu/conv_winograd_f4.h).
#include "codegen/core/Bytes.h"
#include "codegen/core/TargetFamily.h"
#include "codegen/cpu/conv/Problem.h"
#include "codegen/cpu/shared/Tile.h"
#include "ir/Context.h"

#include "llvm/Support/MathExtras.h"

namespace tenon::cpu {
namespace {

struct WinogradSchedule : TileShape {
  int64_t tileRows;

  static llvm::ArrayRef<Field<WinogradSchedule>> fields() {
    static const Field<WinogradSchedule> kFields[] = {
        {"mr", &WinogradSchedule::mr, between(1, 32)},
        {"nr", &WinogradSchedule::nr, between(1, 128)},
        {"tile_rows", &WinogradSchedule::tileRows, between(1, 32)},
    };
    return kFields;
  }
};

struct Winograd {
  static constexpr llvm::StringLiteral
      id = "conv_winograd_f4",
      summary = "convolution of 3x3 taps at stride 1 by Winograd's F(4x4, 3x3)";
  using Problem = WindowProblem;
  using Schedule = WinogradSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    auto p = windowProblem(in, Factors::Floats, /*most=*/3);
    if (!p)
      return p;
    const ConvProblem &c = p->conv;
    for (const Value *operand : {in.form.anchor->operand(0), in.form.anchor->operand(1)})
      if (operand->type().element() != Element::F32)
        return Refusal{"operands that are not f32", ""};
    if (c.kernelH != 3 || c.kernelW != 3 || in.form.anchor->operand(1)->type().rank() < 4)
      return Refusal{"no convolution of 3x3 taps", ""};
    if (c.strideH != 1 || c.strideW != 1 || c.dilationH != 1 || c.dilationW != 1)
      return Refusal{"strides or dilations", ""};
    if (c.groups != 1)
      return Refusal{"groups", ""};
    if (p->width() == 1 || !in.level.family->facts.hosted)
      return Refusal{"no vectors", ""};
    if (quantizes(*in.form.group))
      return Refusal{"results in steps, of which the last bits of a sum may make another", ""};
    return p;
  }

  static bool quantizes(const Operation &group) {
    return llvm::any_of(group.region(), [](const Operation &op) {
      return op.is(Op::Map) &&
             llvm::any_of(op.region(), [](const Operation &s) { return s.is(Op::Quantize); });
    });
  }

  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    const int64_t tiles = tilesOf(p);
    for (const TileShape &t :
         tileShapes(tiles, p.conv.filters, p.width(), p.in.level.simdRegisters)) {
      const auto needed = int64_t(llvm::divideCeil(tiles, t.mr));
      for (int64_t rows = 1; rows <= 16; rows *= 2) {
        const Schedule s{t, std::min(rows, needed)};
        if (stackBytes(p, s) <= kMostBytes)
          out.push_back(s);
        if (rows >= needed)
          break;
      }
    }
  }
  static Result<> legal(const Problem &p, const Schedule &s) {
    if (stackBytes(p, s) > kMostBytes)
      return impossible<Winograd>(s, "its tiles take " + formatBytes(stackBytes(p, s)) +
                                         " of stack, of " + formatBytes(kMostBytes));
    if (s.nr % p.width() != 0)
      return impossible<Winograd>(s, "nr is no multiple of the " + std::to_string(p.width()) +
                                         " elements of a vector");
    return fitsRegisters(printSchedule(id, s), p.in.level, s, p.width(), 0);
  }

  static double microseconds(const Problem &problem, const Schedule &s) {
    const ConvProblem &p = problem.conv;
    const TargetLevel &level = problem.in.level;
    const int64_t width = problem.width(), tiles = tilesOf(problem), depth = depthOf(problem);
    const double units = double(llvm::divideCeil(tiles, s.mr * s.tileRows));
    const double products =
        tileCost(level, s, unsigned(width), tiles, p.filters, double(depth), kPlaces);
    // Of each vector of channels that a tile reads and of filters that it writes.
    const double vectors = level.peakGflops * 1e3 / double(2 * width); // a microsecond
    const double transforms =
        double(tiles) *
        (kForward * double(p.kernelD * int64_t(llvm::divideCeil(p.channels, width))) +
         kBack * double(llvm::divideCeil(p.filters, width))) /
        vectors;
    // Every unit reads all weights, from the memory at first and then from some cache.
    const double weights =
        4 * kPlaces * double(depth) * double(llvm::alignTo(p.filters, uint64_t(s.nr)));
    const double reading = weights * (1 + (units - 1) / 8) / (level.bandwidthGBs * 1e3);
    return products + transforms + reading + problem.moving();
  }

  /// [ceil(filters/nr)][6][6][kernel_d][channels][nr]
  static void pack(const Problem &p, const Schedule &s, llvm::SmallVectorImpl<Packing> &out) {
    const Value *source = p.in.form.anchorInputs[1].inputs[0].source;
    const Type w = source->type();
    const Dim side = w.context().dim(6);
    llvm::SmallVector<LayoutAxis, 7> axes;
    axes.push_back({0, s.nr, false, Dim(), 0});
    for (unsigned d = w.rank() - 2; d < w.rank(); ++d)
      axes.push_back({int(d), 0, false, side, 0});
    if (w.rank() == 5)
      axes.push_back({2, 0, false, Dim(), 0});
    axes.push_back({1, 0, false, Dim(), 0});
    axes.push_back({0, s.nr, true, Dim(), 0});
    out.push_back({source->index(), Layout::get(w.context(), axes), "winograd6"});
  }

  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    emitWindow(p, {id, printedOf(s)}, out);
  }

private:
  static constexpr int64_t kMostBytes = 768 << 10;
  static constexpr double kPlaces = 36, kForward = 260, kBack = 180;

  static int64_t tilesOf(const Problem &problem) {
    const ConvProblem &p = problem.conv;
    const auto of = [](Dim extent) { return int64_t(llvm::divideCeil(extent.upper(), 4)); };
    return std::max<int64_t>(1, p.batch.upper() * (p.isVolume() ? p.outDepth.upper() : 1) *
                                    of(p.outHeight) * of(p.outWidth));
  }
  static int64_t depthOf(const Problem &problem) {
    return problem.conv.kernelD *
           int64_t(llvm::alignTo(uint64_t(problem.conv.channels), problem.width()));
  }
  static int64_t stackBytes(const Problem &p, const Schedule &s) {
    return 4 * int64_t(kPlaces) * s.mr * s.tileRows * (depthOf(p) + s.nr);
  }
};

} // namespace

const Tactic &kConvWinograd = kTacticOf<Winograd>;

} // namespace tenon::cpu
