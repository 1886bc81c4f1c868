// Defines the tactic `conv_bf16`: convolutions of bf16 with sums in f32 on runtime/cpu/conv_bf16.h,
// two products a lane where the machine has an instruction for them.
#include "codegen/cpu/conv/Problem.h"
#include "codegen/cpu/shared/Tile.h"
#include "codegen/cpu/shared/Window.h"

namespace tenon::cpu {
namespace {

struct Bf16 {
  static constexpr llvm::StringLiteral id = "conv_bf16",
                                       summary = "convolution of bf16 by pairs, sums in f32 "
                                                 "(AVX512-BF16, or widened)";
  using Problem = WindowProblem;
  using Schedule = TileSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    auto p = windowProblem(in, Factors::Bf16, /*most=*/2);
    if (!p)
      return p;
    if (p->conv.groups != 1)
      return Refusal{"several groups", ""};
    if (mostRowsOfPairs(runsOf(*p).words) == 0)
      return Refusal{"patches too large for the stack", ""};
    return p;
  }

  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    const int64_t most = mostRowsOfPairs(runsOf(p).words);
    for (const TileShape &t :
         tileShapes(pixelsOf(p), p.conv.filters, p.width(), p.in.level.simdRegisters))
      out.push_back({{std::min(t.mr, most), t.nr}});
  }
  static Result<> legal(const Problem &p, const Schedule &s) {
    if (s.mr > mostRowsOfPairs(runsOf(p).words))
      return impossible<Bf16>(s, "patches of so many rows have no room on the stack");
    return isWholeTile<Bf16>(s, p.in.level, p.width());
  }

  /// A pair of products as every machine of the level has them takes the time of two float ones.
  static double microseconds(const Problem &p, const Schedule &s) {
    return tileCost(p.in.level, s, p.width(), pixelsOf(p), p.conv.filters,
                    double(runsOf(p).words) * 2, double(p.conv.batch.upper())) +
           p.moving();
  }

  static void pack(const Problem &p, const Schedule &, llvm::SmallVectorImpl<Packing> &out) {
    const Value *source = p.in.form.anchorInputs[1].inputs[0].source;
    const Type w = source->type();
    llvm::SmallVector<int, 6> line;
    for (unsigned d = 2; d < w.rank(); ++d)
      line.push_back(int(d));
    line.insert(runsOf(p).alongRow ? line.begin() : line.end(), 1);
    out.push_back({source->index(), packedWords(w, {}, 0, line, int64_t(p.width()), 2)});
  }

  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    WindowCall call{"conv_bf16", printedOf(s)};
    call.rowRuns = runsOf(p).alongRow;
    emitWindow(p, call, out);
  }

private:
  /// What is computed on the way in is so along the channels.
  static WordRuns runsOf(const Problem &p) {
    Strides x = p.x;
    if (!p.in.form.anchorInputs[0].isPlainRead())
      x.strides[1] = x.offset.node()->context->dim(1);
    return wordRuns(p.conv, x, 2);
  }
  static Dim pixelsOf(const Problem &p) { return p.conv.outHeight * p.conv.outWidth; }
};

} // namespace

const Tactic &kConvBf16 = kTacticOf<Bf16>;

} // namespace tenon::cpu
