// Defines the tactic `conv_winograd`: true fp32 convolutions of 3 x 3 taps at stride 1 with fewer
// multiplications (runtime/cuda/winograd/kernel.cuh).
#include "codegen/core/TacticOf.h"
#include "codegen/core/Work.h"
#include "codegen/cuda/shared/TileCosts.h"
#include "runtime/cuda/winograd/geometry.h"

namespace tenon::cuda {
namespace {

struct WinogradSchedule {
  int64_t tileT, tileN, tileC, warps, stages, splits;

  static llvm::ArrayRef<Field<WinogradSchedule>> fields() {
    static const Field<WinogradSchedule> kFields[] = {
        {"tile_t", &WinogradSchedule::tileT, oneOf(16, 32)},
        {"tile_n", &WinogradSchedule::tileN, oneOf(32, 64)},
        {"tile_c", &WinogradSchedule::tileC, oneOf(8, 16)},
        {"warps", &WinogradSchedule::warps, oneOf(8)},
        {"stages", &WinogradSchedule::stages, between(2, 8)},
        {"splits", &WinogradSchedule::splits, oneOf(1, 2, 4, 8, 16)},
    };
    return kFields;
  }

  bool hasTilesOf(const WinogradSchedule &o) const {
    return tileT == o.tileT && tileN == o.tileN && tileC == o.tileC && warps == o.warps;
  }
  /// Over all images.
  int64_t tiles(const ConvProblem &p) const {
    return ceilDiv(p.batch.upper() * ceilDiv(p.outHeight.upper(), 2) *
                       ceilDiv(p.outWidth.upper(), 2),
                   tileT) *
           ceilDiv(p.filters, tileN);
  }
};

/// Tiles, with as many buffers as they are measured with, and how many blocks fit on a
/// multiprocessor.
struct Row {
  WinogradSchedule schedule;
  int64_t together;
};
constexpr Row kRows[] = {
    {{32, 64, 8, 8, 3, 1}, 1},
    {{32, 32, 8, 8, 3, 1}, 1},
    {{16, 32, 16, 8, 3, 1}, 1},
    {{16, 32, 8, 8, 3, 1}, 2},
};

struct WinogradCosts {
  TileCosts tiles[std::size(kRows)];
  /// Microseconds that moving takes beside what it is estimated to.
  double moving;

  static constexpr llvm::StringLiteral family = "winograd";
};
constexpr WinogradCosts kCosts = {
#include "codegen/cuda/winograd/costs.inc"
};

struct Winograd : PricedBy<kCosts> {
  static constexpr llvm::StringRef id = "conv_winograd",
                                   summary = "fp32 convolution of 3x3 taps at stride 1 by "
                                             "Winograd's F(2x2, 3x3)";
  using Problem = ContractionProblem;
  using Schedule = WinogradSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    return readContraction(in, [&](const Contraction &c) -> Result<> {
      const ConvProblem &p = c.conv;
      if (c.b != Element::F32 || in.form.anchor->operand(0)->type().element() != Element::F32 ||
          computeElement(c.a) != Element::F32)
        return Refusal{"operands that are not f32", ""};
      if (!c.isConv || p.isVolume() || p.kernelH != 3 || p.kernelW != 3)
        return Refusal{"no convolution of 3x3 taps", ""};
      if (p.strideH != 1 || p.strideW != 1 || p.dilationH != 1 || p.dilationW != 1)
        return Refusal{"strides or dilations", ""};
      if (p.groups != 1)
        return Refusal{"groups", ""};
      if (in.form.anchor->operand(1)->type().rank() != 4)
        return Refusal{"one spatial dimension", ""};
      return Accepted{};
    });
  }

  static Result<> fits(const Problem &p, const Schedule &s) {
    return hasRoom<Winograd>(
        p, s, winograd_geometry{s.tileT, s.tileN, s.tileC, s.warps, s.stages}.shared_bytes());
  }

  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    for (const Row &row : kRows) {
      Schedule s = row.schedule;
      while (s.stages >= 2 && !fits(p, s))
        --s.stages;
      if (s.stages < 2)
        continue;
      const int64_t tiles = s.tiles(p.c.conv), steps = ceilDiv(p.c.conv.channels, s.tileC);
      for (int64_t splits : {1, 2, 4, 8, 16})
        if (splits == 1 ||
            (tiles * splits <= 2 * int64_t(p.in.level.multiprocessors) && steps >= 4 * splits)) {
          s.splits = splits;
          out.push_back(s);
        }
    }
  }

  static Result<> legal(const Problem &p, const Schedule &s) {
    std::vector<Schedule> all;
    for (const Row &row : kRows) {
      all.push_back(row.schedule);
      all.back().stages = s.stages;
      all.back().splits = s.splits;
    }
    return isAmong<Winograd>(s, all).andThen([&] { return fits(p, s); });
  }

  static double microseconds(const Problem &p, const Schedule &s, const WinogradCosts &c) {
    const ConvProblem &conv = p.c.conv;
    const Row *row = llvm::find_if(kRows, [&](const Row &r) { return r.schedule.hasTilesOf(s); });
    const TilePrice tile{row->together, c.tiles[row - std::begin(kRows)]};
    const double blocks = double(s.tiles(conv)) * double(s.splits),
                 each = tile.crowded(blocks / p.in.level.multiprocessors);
    const double time =
        stepsOf(conv.channels, s.tileC, s.splits) * tile.step(each) * slowdownOfCores(p.in.level) +
        tile.blocks(each) + tile.costs.parts(s.splits);
    Effort e;
    // 16 numbers are stored for 9 taps.
    e.bytes = p.bytes + 7.0 * 4 * double(conv.channels * conv.filters);
    e.launches = 0;
    const double tie =
        multipliedAs(p.in.form).empty() ? 1 : 1.2; // as in codegen/cuda/contract_simt/Tactic.cpp
    return tie * (kTileLaunch + std::hypot(time, cuda::microseconds(p.in.level, e) + c.moving));
  }

  static KeyValues computed(const Problem &p, const Schedule &s) {
    return {{"least_shared", leastShared(p.in.level, s.tiles(p.c.conv) * s.splits)}};
  }
  static int64_t scratch(const Problem &p, const Schedule &s) {
    return s.splits == 1 ? 0 : s.tiles(p.c.conv) * s.splits * 16 * s.tileT * s.tileN * 4;
  }
  static int64_t zeroed(const Problem &p, const Schedule &s) {
    return s.splits == 1 ? 0 : s.tiles(p.c.conv) * 4;
  }

  /// [ceil(filters/tile_n)][channels][4][4][tile_n]
  static void pack(const Problem &p, const Schedule &s, llvm::SmallVectorImpl<Packing> &out) {
    const Value *source = p.in.form.anchorInputs[1].inputs[0].source;
    Context &context = source->type().context();
    const LayoutAxis axes[] = {{0, s.tileN, false, Dim(), 0},
                               {1, 0, false, Dim(), 0},
                               {2, 0, false, context.dim(4), 0},
                               {3, 0, false, context.dim(4), 0},
                               {0, s.tileN, true, Dim(), 0}};
    out.push_back({source->index(), Layout::get(context, axes), "winograd"});
  }

  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    out.include("cuda/winograd/kernel.cuh");
    out.letShapeVary();
    emitContraction(p.in, p.c, membersOf(s, computed(p, s)), scratchOf(s.splits), out, "winograd");
  }
};

} // namespace

const Tactic &kConvWinograd = kTacticOf<Winograd>;

} // namespace tenon::cuda
