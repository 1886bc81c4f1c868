// Defines the tactics `conv_bytes` and `depthwise_bytes`: convolutions and matrix products of 8-bit
// integers on x86-64 and aarch64 (runtime/cpu/conv_bytes.h, depthwise_bytes.h), with the
// instructions for them that the machine has.
#include "codegen/core/TacticOf.h"
#include "codegen/core/Work.h"
#include "codegen/cpu/shared/ByteContraction.h"
#include "codegen/cpu/shared/Operands.h"
#include "codegen/cpu/shared/Tile.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>

namespace tenon::cpu {
namespace {

bool isNeon(const TargetLevel &level) { return level.name.startswith("armv8"); }
/// Whether the level multiplies vectors of 16-bit integers.
bool hasPairs(const TargetLevel &level) { return level.name.startswith("x86-64") || isNeon(level); }

/// Words of four bytes of one patch, whose runs are rows of taps or the channels of taps.
int64_t wordsOf(const ConvProblem &p, bool rowRuns) {
  return p.kernelH * (rowRuns ? p.channels * int64_t(llvm::divideCeil(p.kernelW, 4))
                              : p.kernelW * int64_t(llvm::divideCeil(p.channels, 4)));
}
/// Runs are what lies side by side: channels, unless there is one or they are planes.
bool rowRuns(const ByteProblem &p) {
  if (p.conv().channels == 1)
    return true;
  return !p.x.strides[1].isConstant(1) && p.x.strides[3].isConstant(1) &&
         wordsOf(p.conv(), true) <= wordsOf(p.conv(), false);
}
int64_t wordsOf(const ByteProblem &p) { return wordsOf(p.conv(), rowRuns(p)); }

/// Patches of one tile are on the stack, of two words for each of theirs.
constexpr int64_t kMostWords = 4096;

/// What both kernels ask for: 8-bit operands, constant int8 weights.
Result<ByteProblem> bytesProblem(const GroupQuery &in) {
  if (!hasPairs(in.level))
    return Refusal{"no vectors of pairs of 16-bit integers", ""};
  return byteProblem(in);
}

/// Sums of each filter's weights, for whole blocks of `block`.
std::string weightSums(const ByteProblem &p, int64_t block) {
  const ByteContraction &q = p.q;
  const Tensor &w = p.weights();
  const int64_t filters = q.conv.groups * q.conv.filters, depth = w.size() / filters;
  const bool filtersLast = q.matrix && !q.transB;
  std::vector<int64_t> sums(llvm::alignTo(uint64_t(filters), uint64_t(block)), 0);
  for (int64_t i = 0; i < w.size(); ++i)
    sums[size_t(filtersLast ? i % filters : i / depth)] += w.intAt(i);
  std::string text;
  for (int64_t s : sums)
    text += (text.empty() ? "" : ", ") + std::to_string(s);
  return text;
}

/// Whether products of two words of a line stay in 16 bits when they are added: those of -128 with
/// -128 are the only ones that do not.
bool fitsPairs(const ByteProblem &p) {
  const ConvProblem &c = p.conv();
  const Tensor &w = p.weights();
  const int64_t filters = c.filters, depth = w.size() / filters, taps = c.kernelH * c.kernelW;
  const bool filtersLast = p.q.matrix && !p.q.transB, rows = rowRuns(p);
  const int64_t perRun = int64_t(llvm::divideCeil(rows ? c.kernelW : c.channels, 4));
  llvm::SmallVector<int64_t, 8> least; // places of a filter's weights of -128, by pair and byte
  for (int64_t k = 0; k < filters; ++k) {
    least.clear();
    for (int64_t i = 0; i < depth; ++i) {
      if (w.intAt(filtersLast ? i * filters + k : k * depth + i) != -128)
        continue;
      const int64_t channel = i / taps, tap = i % taps;
      const int64_t run = rows ? channel * c.kernelH + tap / c.kernelW : tap,
                    at = rows ? tap % c.kernelW : channel, word = run * perRun + at / 4;
      least.push_back(word / 2 * 4 + at % 4);
    }
    llvm::sort(least);
    if (std::adjacent_find(least.begin(), least.end()) != least.end())
      return false;
  }
  return true;
}

void emitCall(const ByteProblem &p, llvm::StringRef kernel, const KeyValues &schedule,
              bool depthwise, StepWriter &out) {
  const GroupForm &form = p.in.form;
  out.include("cpu/" + kernel.str() + ".h");
  StepWriter::Config cfg(out, "config",
                         depthwise ? "cpu::depthwise_defaults" : "cpu::conv_defaults");
  writeExtents(cfg, p.q, depthwise);
  for (auto &[key, value] : schedule)
    cfg.number(key, value);
  if (!depthwise)
    cfg.flag("row_runs", rowRuns(p));
  if (!depthwise && isNeon(p.in.level) && fitsPairs(p))
    cfg.flag("fits_pairs", true);
  const std::string config = cfg.finish();

  const std::string body = out.body(form.body, {Element::I32});
  writeOperands(out, p);
  SourceWriter &c = out.code();
  c.line("static constexpr int32_t sums[] = {" + weightSums(p, p.in.level.simdWidth) + "};");
  c.line("cpu::" + kernel.str() + "(" + config + ", x, w, sums, " + std::to_string(p.zero) +
         ", outs, ins, " + body + ", *f.workers);");
}

struct ConvBytes {
  static constexpr llvm::StringLiteral id = "conv_bytes",
                                       summary = "sums of 8-bit integers, four products a lane "
                                                 "(VNNI, or pairs)";
  using Problem = ByteProblem;
  using Schedule = TileSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    auto p = bytesProblem(in);
    if (!p)
      return p;
    if (auto one = hasOneGroup(*p); !one)
      return std::move(one).refusal();
    if (wordsOf(*p) > kMostWords)
      return Refusal{"patches too large for the stack", ""};
    return p;
  }

  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    if (isNeon(p.in.level)) {
      neonTiles(p, out);
      return;
    }
    for (const TileShape &t :
         tileShapes(pixelsOf(p), p.conv().filters, p.in.level.simdWidth, p.in.level.simdRegisters))
      out.push_back({t});
  }
  static Result<> legal(const Problem &p, const Schedule &s) {
    return isWholeTile<ConvBytes>(s, p.in.level, p.in.level.simdWidth);
  }

  /// Two products of 16-bit integers, as every machine of the level has them, take the time of one
  /// float multiply-add and an addition.
  static double microseconds(const Problem &p, const Schedule &s) {
    const TargetLevel &level = p.in.level;
    const double batches = double(p.conv().batch.upper());
    return (isNeon(level) ? batches * neonInstructions(p, s) / (level.peakGflops * 1e3 / 8)
                          : tileCost(level, s, level.simdWidth, pixelsOf(p), p.conv().filters,
                                     double(wordsOf(p)) * 2, batches)) +
           double(workOf(*p.in.form.group).bytes) / (level.bandwidthGBs * 1e3) * 0.2;
  }

  static void pack(const Problem &p, const Schedule &, llvm::SmallVectorImpl<Packing> &out) {
    const ByteContraction &q = p.q;
    const Value *source = p.weightsOperand();
    const Type w = source->type();
    const int64_t lanes = p.in.level.simdWidth;
    llvm::SmallVector<LayoutAxis, 8> axes;
    // Of each filter a line whose last dimension, the run, goes by fours.
    llvm::SmallVector<int, 6> line;
    if (q.matrix) {
      line = {q.transB ? 1 : 0};
    } else {
      for (unsigned d = 2; d < w.rank(); ++d)
        line.push_back(int(d));
      // A row of taps is of a 1-d image turned upright its only line.
      const bool rows = rowRuns(p);
      line.insert(rows ? line.begin() : line.end(), 1);
      if (rows && q.upright)
        std::swap(line[line.size() - 1], line[line.size() - 2]);
    }
    const int filter = q.matrix && !q.transB ? 1 : 0, run = line.pop_back_val();
    axes.push_back({filter, lanes, false, Dim(), 0});
    for (int d : line)
      axes.push_back({d, 0, false, Dim(), 0});
    axes.push_back({run, 4, false, Dim(), 0});
    axes.push_back({filter, lanes, true, Dim(), 0});
    axes.push_back({run, 4, true, Dim(), 0});
    out.push_back({source->index(), Layout::get(w.context(), axes)});
  }

  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    emitCall(p, id, printedOf(s), /*depthwise=*/false, out);
  }

private:
  /// Tiles whose sums and operands are in the 32 registers (runtime/cpu/neon_sums.h).
  static void neonTiles(const Problem &p, std::vector<Schedule> &out) {
    const TargetLevel &level = p.in.level;
    const int64_t rows = pixelsOf(p),
                  needed = int64_t(llvm::divideCeil(p.conv().filters, int64_t(level.simdWidth)));
    if (rows == 1) {
      out.push_back({{1, std::min<int64_t>(needed, 8) * level.simdWidth}});
      return;
    }
    for (int64_t v : {2, 3, 4, 1}) {
      if (v > needed)
        continue;
      const int64_t most = level.matrixProducts ? (29 - 2 * v) / (2 * v) * 2
                           : level.dotProducts  ? (31 - v) / (v + 1)
                                                : std::max<int64_t>(1, (26 - 4 * v) / (2 * v));
      const int64_t even = int64_t(llvm::divideCeil(rows, llvm::divideCeil(rows, most)));
      out.push_back({{level.matrixProducts ? even + even % 2 : even, v * level.simdWidth}});
    }
  }
  /// What the loops of one image execute: for four words of each patch, and for each tile.
  static double neonInstructions(const Problem &p, const Schedule &s) {
    const TargetLevel &level = p.in.level;
    const double mr = double(s.mr), v = double(s.nr) / level.simdWidth;
    const double pairs = double(llvm::divideCeil(s.mr, 2));
    const double fourWords = level.matrixProducts ? 4 * pairs * v + 4 * pairs + 6 * v + 3
                             : level.dotProducts  ? 4 * mr * v + mr + 2 * v + 3
                                                  : 12 * mr * v + 5 * mr + 2 * v + 3;
    const double tiles = double(llvm::divideCeil(pixelsOf(p), s.mr)) *
                         double(llvm::divideCeil(p.conv().filters, s.nr));
    return tiles * (fourWords * double(wordsOf(p)) / 4 + 60 + 20 * mr * v);
  }
  static int64_t pixelsOf(const Problem &p) {
    return std::max<int64_t>(1, (p.conv().outHeight * p.conv().outWidth).upper());
  }
};

struct DepthwiseBytes {
  static constexpr llvm::StringLiteral id = "depthwise_bytes",
                                       summary = "depthwise convolution of 8-bit integers, four "
                                                 "taps a lane";
  using Problem = ByteProblem;
  using Schedule = RowSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    auto p = bytesProblem(in);
    if (!p)
      return p;
    if (auto depthwise = isDepthwise(*p); !depthwise)
      return std::move(depthwise).refusal();
    if (p->conv().kernelH * p->conv().kernelW > 64) // taps are unrolled
      return Refusal{"a large window", ""};
    return p;
  }

  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    const int64_t registers = int64_t(p.in.level.simdRegisters) - operands(p),
                  most = std::max<int64_t>(1, std::min<int64_t>(8, registers)),
                  width = std::max<int64_t>(1, p.conv().outWidth.upper());
    out.push_back({int64_t(llvm::divideCeil(width, llvm::divideCeil(width, most)))});
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
    const Value *source = p.weightsOperand();
    const Type w = source->type();
    const bool neon = isNeon(p.in.level); // single taps of eight channels
    const int64_t width = neon ? 8 : p.in.level.simdWidth;
    // Rows of the kernel go by fours. Those of a 1-d window are its one channel, upright its
    // columns.
    int rows = w.rank() == 3 ? 1 : 2, columns = w.rank() == 3 ? 2 : 3;
    if (p.q.upright)
      std::swap(rows, columns);
    llvm::SmallVector<LayoutAxis, 8> axes;
    axes.push_back({0, width, false, Dim(), 0});
    axes.push_back({rows, neon ? 0 : 4, false, Dim(), 0});
    if (w.rank() > 3)
      axes.push_back({1, 0, false, Dim(), 0});
    axes.push_back({columns, 0, false, Dim(), 0});
    axes.push_back({0, width, true, Dim(), 0});
    if (!neon)
      axes.push_back({rows, 4, true, Dim(), 0});
    out.push_back({source->index(), Layout::get(w.context(), axes)});
  }

  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    emitCall(p, id, printedOf(s), /*depthwise=*/true, out);
  }

private:
  /// Registers beside the sums: two for each tap of a row, and three.
  static int64_t operands(const Problem &p) { return 2 * p.conv().kernelW + 3; }
};

} // namespace

const Tactic &kConvBytes = kTacticOf<ConvBytes>;
const Tactic &kDepthwiseBytes = kTacticOf<DepthwiseBytes>;

} // namespace tenon::cpu
