// Defines the tactics `conv_bytes` and `depthwise_bytes`: convolutions and matrix products of 8-bit
// integers on x86-64 and aarch64 (runtime/cpu/conv_bytes.h, depthwise_bytes.h), with the
// instructions for them that the machine has.
#include "codegen/core/TacticOf.h"
#include "codegen/core/Work.h"
#include "codegen/cpu/shared/ByteContraction.h"
#include "codegen/cpu/shared/Operands.h"
#include "codegen/cpu/shared/Tile.h"
#include "codegen/cpu/shared/Window.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>

namespace tenon::cpu {
namespace {

bool isNeon(const TargetLevel &level) { return level.name.startswith("armv8"); }
/// Whether the level multiplies vectors of 16-bit integers.
bool hasPairs(const TargetLevel &level) { return level.name.startswith("x86-64") || isNeon(level); }

/// How the words of a patch go through the window.
WordRuns runsOf(const ByteProblem &p) { return wordRuns(p.conv(), p.x, 4); }

/// Patches of one tile are on the stack, of two words for each of theirs.
constexpr int64_t kMostWords = 4096;

/// What both kernels ask for: 8-bit operands, constant int8 weights.
Result<ByteProblem> bytesProblem(const GroupQuery &in) {
  if (!hasPairs(in.level))
    return Refusal{"no vectors of pairs of 16-bit integers", ""};
  return byteProblem(in);
}

/// One number of each filter, for whole blocks of `block`.
std::string numbersOf(std::vector<int64_t> numbers, int64_t block) {
  numbers.resize(llvm::alignTo(numbers.size(), uint64_t(block)), 0);
  std::string text;
  for (int64_t n : numbers)
    text += (text.empty() ? "" : ", ") + std::to_string(n);
  return text;
}

/// visit(place, filter, place in the filter) for all weights as they are stored: the filters last
/// or first.
template <class Visit>
void inOrder(bool filtersLast, int64_t filters, int64_t depth, const Visit &visit) {
  int64_t at = 0;
  for (int64_t outer = 0; outer < (filtersLast ? depth : filters); ++outer)
    for (int64_t inner = 0; inner < (filtersLast ? filters : depth); ++inner)
      visit(at++, filtersLast ? inner : outer, filtersLast ? outer : inner);
}

/// Sums of each filter's weights.
std::vector<int64_t> weightSums(const ByteProblem &p) {
  const ByteContraction &q = p.q;
  const Tensor &w = p.weights();
  const int64_t filters = q.conv.groups * q.conv.filters, depth = w.size() / filters;
  const bool filtersLast = q.matrix && !q.transB;
  std::vector<int64_t> sums(size_t(filters), 0);
  withInts(w, [&](const auto &weights) {
    inOrder(filtersLast, filters, depth,
            [&](int64_t at, int64_t k, int64_t) { sums[size_t(k)] += weights[at]; });
  });
  return sums;
}

/// Writes the zero points of the weights, and returns them as an argument; empty without any.
std::string weightZeros(const ByteProblem &p, StepWriter &out) {
  if (!p.weightZeros)
    return "";
  const Tensor &zeros = *p.weightZeros;
  if (zeros.size() == 1 || zeros.isSplat())
    return ", cpu::one_weight_zero{" + std::to_string(zeros.intAt(0)) + "}";
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < zeros.size(); ++i)
    numbers.push_back(zeros.intAt(i));
  // On aarch64 depthwise convolutions take eight channels at a time.
  out.code().line("static constexpr int32_t zeros[] = {" +
                  numbersOf(std::move(numbers), std::max(8u, p.in.level.simdWidth)) + "};");
  return ", cpu::weight_zeros{zeros}";
}

/// The zero point of x as an argument.
std::string zeroOf(const ByteProblem &p, StepWriter &out) {
  if (p.zero)
    return std::to_string(*p.zero);
  const ScalarProgram &zero = p.in.form.anchorInputs[2];
  return "*(" +
         out.pointer(zero.inputs[0].source,
                     stridesOf(zero.inputs[0], unsigned(zero.space.size())).offset) +
         ")";
}

/// visit(filter, word of its line, byte of the word, weight) for all weights, in any order.
template <class Visit> void forEachWeight(const ByteProblem &p, const Visit &visit) {
  const ConvProblem &c = p.conv();
  const Tensor &w = p.weights();
  const int64_t filters = c.filters, depth = w.size() / filters, taps = c.kernelH * c.kernelW;
  const bool filtersLast = p.q.matrix && !p.q.transB, rows = runsOf(p).alongRow;
  const int64_t perRun = int64_t(llvm::divideCeil(rows ? c.kernelW : c.channels, 4));
  struct Byte {
    int64_t word, byte;
  };
  std::vector<Byte> places; // in a filter's line
  for (int64_t i = 0; i < depth; ++i) {
    const int64_t channel = i / taps, tap = i % taps;
    const int64_t run = rows ? channel * c.kernelH + tap / c.kernelW : tap,
                  at = rows ? tap % c.kernelW : channel;
    places.push_back({run * perRun + at / 4, at % 4});
  }
  withInts(w, [&](const auto &weights) {
    inOrder(filtersLast, filters, depth, [&](int64_t at, int64_t k, int64_t i) {
      visit(k, places[size_t(i)].word, places[size_t(i)].byte, int64_t(weights[at]));
    });
  });
}

/// Whether products of two words of a line stay in 16 bits when they are added: those of -128 with
/// -128 are the only ones that do not.
bool fitsPairs(const ByteProblem &p) {
  llvm::SmallVector<int64_t, 8> least; // places of weights of -128: filter, pair and byte
  const int64_t places = int64_t(llvm::divideCeil(runsOf(p).words, 2)) * 4;
  forEachWeight(p, [&](int64_t filter, int64_t word, int64_t byte, int64_t weight) {
    if (weight == -128)
      least.push_back(filter * places + word / 2 * 4 + byte);
  });
  llvm::sort(least);
  return std::adjacent_find(least.begin(), least.end()) == least.end();
}

/// Longer vectors are of machines most of which have VNNI.
bool hasShorts(const TargetLevel &level) { return !isNeon(level) && level.simdWidth <= 8; }

/// How machines without VNNI multiply the weights of a convolution by a tile (short_products and
/// sign_products in runtime/common/byte_products.h).
struct ShortSums {
  int64_t words = 0;      // added in 16 bits; 0: none
  bool fitsSigns = false; // no weight is -128
  /// Groups of words that are added in 32 bits, of each block of filters.
  llvm::SmallVector<llvm::SmallVector<int64_t, 4>, 4> wide;

  bool anyWide() const {
    return llvm::any_of(wide, [](const auto &groups) { return !groups.empty(); });
  }
};

/// Of each half of each word of a filter's line, what its weights of one sign come to at most.
struct HalfWords {
  int64_t words;
  std::vector<int16_t> positive, negative; // [filters][words][2], magnitudes
  bool hasLeast = false;

  explicit HalfWords(const ByteProblem &p)
      : words(runsOf(p).words), positive(size_t(p.conv().filters * words * 2)),
        negative(positive.size()) {
    forEachWeight(p, [&](int64_t filter, int64_t word, int64_t byte, int64_t weight) {
      auto &of = weight < 0 ? negative : positive;
      auto &sum = of[size_t((filter * words + word) * 2 + byte / 2)];
      sum = int16_t(sum + std::abs(weight));
      hasLeast |= weight == -128;
    });
  }
  /// Whether 16 bits hold what `count` words from `first` on, times any bytes without sign, come
  /// to.
  bool fits(int64_t filter, int64_t first, int64_t count) const {
    for (const auto *of : {&positive, &negative})
      for (int64_t half : {0, 1}) {
        int64_t sum = 0;
        for (int64_t i = first; i < first + count; ++i)
          sum += (*of)[size_t((filter * words + i) * 2 + half)];
        if (sum > 128) // 255 times as much
          return false;
      }
    return true;
  }
};

/// The groups of so many words with which some filter of a block does not fit; None where a word
/// that is left over does not.
llvm::Optional<ShortSums> shortSums(const HalfWords &halves, int64_t filters, int64_t words,
                                    int64_t block) {
  ShortSums s;
  s.words = words;
  for (int64_t first = 0; first < filters; first += block) {
    const int64_t stop = std::min(filters, first + block);
    auto &wide = s.wide.emplace_back();
    for (int64_t g = 0; g < halves.words; g += words) {
      const int64_t count = std::min(words, halves.words - g);
      bool fits = true;
      for (int64_t k = first; fits && k < stop; ++k)
        fits = halves.fits(k, g, count);
      if (!fits && count < words)
        return llvm::None;
      if (!fits)
        wide.push_back(g / words);
    }
  }
  return s;
}

/// What costs fewest instructions of vectors. Products of 16-bit integers take four a word, and
/// their operands have to be widened; bytes in 16 bits three, or five for two words; those with
/// the sign of x four.
ShortSums fewestInstructions(const ByteProblem &p, TileShape t) {
  constexpr int64_t kMostGroups = 1 << 16; // their numbers have 16 bits
  const HalfWords halves(p);
  const double width = p.in.level.simdWidth, mr = double(t.mr), vectors = double(t.nr) / width;
  ShortSums best;
  best.fitsSigns = !halves.hasLeast;
  double least = best.fitsSigns ? 4 : 4 + 3 / mr;
  for (int64_t words : {2, 1}) {
    auto s = shortSums(halves, p.conv().filters, words, t.nr);
    if (!s || halves.words > kMostGroups)
      continue;
    double wide = 0;
    for (const auto &groups : s->wide)
      wide += double(groups.size());
    wide = std::min(1.0, wide * double(words) / (double(halves.words) * double(s->wide.size())));
    const double cost = (1 - wide) * (2 + 1 / double(words)) + wide * (5 + 3 / mr + 3 / vectors);
    if (cost < least) {
      least = cost;
      s->fitsSigns = best.fitsSigns;
      best = std::move(*s);
    }
  }
  return best;
}

/// Of a depthwise convolution: four rows of a column of the kernel are a word.
ShortSums depthwiseSums(const ByteProblem &p) {
  const Tensor &w = p.weights();
  const int64_t rows = p.conv().kernelH, columns = p.conv().kernelW, taps = rows * columns;
  const auto magnitude = [&](int64_t i, bool negative) {
    return std::max<int64_t>(0, negative ? -w.intAt(i) : w.intAt(i));
  };
  ShortSums s{1, true, {}};
  for (int64_t i = 0; i < w.size(); ++i) {
    s.fitsSigns &= w.intAt(i) != -128;
    const int64_t row = i % taps / columns;
    const bool pair = row % 2 == 0 && row + 1 < rows;
    for (bool negative : {false, true})
      if (magnitude(i, negative) + (pair ? magnitude(i + columns, negative) : 0) > 128)
        s.words = 0;
  }
  return s;
}

/// Writes the groups that do not fit, and returns them as an argument; empty without any.
std::string wideGroups(const ShortSums &s, StepWriter &out) {
  if (!s.anyWide())
    return "";
  std::string groups, starts = "0";
  size_t count = 0;
  for (const auto &block : s.wide) {
    for (int64_t g : block)
      groups += (groups.empty() ? "" : ", ") + std::to_string(g);
    starts += ", " + std::to_string(count += block.size());
  }
  out.code().line("static constexpr uint16_t wide[] = {" + groups + "};");
  out.code().line("static constexpr uint32_t wide_starts[] = {" + starts + "};");
  return ", cpu::wide_groups{wide, wide_starts}";
}

void emitCall(const ByteProblem &p, llvm::StringRef kernel, const KeyValues &schedule,
              bool depthwise, const ShortSums &shorts, StepWriter &out) {
  const GroupForm &form = p.in.form;
  out.include("cpu/" + kernel.str() + ".h");
  StepWriter::Config cfg(out, "config",
                         depthwise ? "cpu::depthwise_defaults" : "cpu::conv_defaults");
  writeExtents(cfg, p.q, depthwise);
  for (auto &[key, value] : schedule)
    cfg.number(key, value);
  if (!depthwise)
    cfg.flag("row_runs", runsOf(p).alongRow);
  if (!depthwise && isNeon(p.in.level) && fitsPairs(p))
    cfg.flag("fits_pairs", true);
  if (shorts.words > 0)
    cfg.number("short_words", shorts.words);
  else if (shorts.fitsSigns)
    cfg.flag("fits_signs", true);
  const std::string config = cfg.finish();

  const std::string body = out.body(form.body, {Element::I32});
  writeOperands(out, p);
  SourceWriter &c = out.code();
  c.line("static constexpr int32_t sums[] = {" + numbersOf(weightSums(p), p.in.level.simdWidth) +
         "};");
  std::string zeros = weightZeros(p, out);
  if (const std::string wide = wideGroups(shorts, out); !wide.empty())
    zeros = (zeros.empty() ? ", cpu::no_weight_zeros{}" : zeros) + wide;
  c.line("cpu::" + kernel.str() + "(" + config + ", x, w, sums, " + zeroOf(p, out) +
         ", outs, ins, " + body + ", *f.workers" + zeros + ");");
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
    if (runsOf(*p).words > kMostWords)
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
                                     double(runsOf(p).words) * 2, batches)) +
           double(workOf(*p.in.form.group).bytes) / (level.bandwidthGBs * 1e3) * 0.2;
  }

  static void pack(const Problem &p, const Schedule &, llvm::SmallVectorImpl<Packing> &out) {
    const ByteContraction &q = p.q;
    const Value *source = p.weightsOperand();
    const Type w = source->type();
    // Of each filter a line whose last dimension, the run, goes by fours.
    llvm::SmallVector<int, 6> line;
    if (q.matrix) {
      line = {q.transB ? 1 : 0};
    } else {
      for (unsigned d = 2; d < w.rank(); ++d)
        line.push_back(int(d));
      // A row of taps is of a 1-d image turned upright its only line.
      const bool rows = runsOf(p).alongRow;
      line.insert(rows ? line.begin() : line.end(), 1);
      if (rows && q.upright)
        std::swap(line[line.size() - 1], line[line.size() - 2]);
    }
    const int filter = q.matrix && !q.transB ? 1 : 0;
    out.push_back({source->index(), packedWords(w, {}, filter, line, p.in.level.simdWidth, 4)});
  }

  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    emitCall(p, id, printedOf(s), /*depthwise=*/false,
             hasShorts(p.in.level) ? fewestInstructions(p, s) : ShortSums{}, out);
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
    return tiles * (fourWords * double(runsOf(p).words) / 4 + 60 + 20 * mr * v);
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
                  most = std::max<int64_t>(
                      1, std::min<int64_t>(8, p.weightZeros ? registers / 2 : registers)),
                  width = std::max<int64_t>(1, p.conv().outWidth.upper());
    out.push_back({int64_t(llvm::divideCeil(width, llvm::divideCeil(width, most)))});
  }
  static Result<> legal(const Problem &p, const Schedule &s) {
    return fitsRegisters(printSchedule(id, s), p.in.level, {s.mr, 1}, 1, operands(p));
  }

  static double microseconds(const Problem &p, const Schedule &) {
    const Work w = workOf(*p.in.form.group);
    // Sums of x take as many products again.
    const double flops = p.weightZeros && !isNeon(p.in.level) ? 2 * w.flops : w.flops;
    return std::max(flops / (p.in.level.peakGflops * 0.25e3),
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
    emitCall(p, id, printedOf(s), /*depthwise=*/true,
             hasShorts(p.in.level) ? depthwiseSums(p) : ShortSums{}, out);
  }

private:
  /// Registers beside the sums: two for each tap of a row, and three.
  static int64_t operands(const Problem &p) { return 2 * p.conv().kernelW + 3; }
};

} // namespace

const Tactic &kConvBytes = kTacticOf<ConvBytes>;
const Tactic &kDepthwiseBytes = kTacticOf<DepthwiseBytes>;

} // namespace tenon::cpu
