// Defines the tactics `conv_pairs` and `depthwise_pairs`: sums of 8-bit integers on cores that
// multiply two pairs of 16-bit integers at once (runtime/cpu/conv_pairs.h, depthwise_pairs.h).
// conv_pairs takes matrix products, too, as convolutions of one row.
#include "codegen/core/TacticOf.h"
#include "codegen/core/TargetFamily.h"
#include "codegen/cpu/shared/ReadOrder.h"
#include "codegen/memory/Packing.h"

#include "llvm/Support/MathExtras.h"

#include <cmath>

namespace tenon::cpu {
namespace {

/// Memory on the stack up to this many bytes, in the arena beyond: small enough for any stack, and
/// most layers then take nothing from the arena's largest moment.
constexpr int64_t kStackBytes = 512;

int64_t inArena(int64_t bytes) { return bytes <= kStackBytes ? 0 : bytes; }

/// What both kernels ask for beyond that: results that lie along one line of pixels.
Result<ByteProblem> pairsProblem(const GroupQuery &in) {
  if (in.level.family->facts.hosted)
    return Refusal{"not for a microcontroller", ""};
  auto p = plainByteProblem(in);
  if (!p)
    return p;
  return readsAlongLine(*p).andThen([&] { return std::move(p); });
}

/// Writes the configuration and the call, with so many bytes of memory for patches or a plane.
void emitCall(const ByteProblem &p, llvm::StringRef kernel, const KeyValues &schedule,
              bool depthwise, int64_t bytes, StepWriter &out) {
  const GroupForm &form = p.in.form;
  out.include("cpu/" + kernel.str() + ".h");
  StepWriter::Config cfg(out, "config", "cpu::conv_defaults");
  writeExtents(cfg, p.q, depthwise);
  for (auto &[key, value] : schedule)
    cfg.number(key, value);
  const std::string config = cfg.finish();

  const std::string body = out.body(form.body, {Element::I32});
  const std::string element =
      depthwise ? cppElement(form.anchor->operand(0)->type().element()).str() : "uint32_t";
  writeOperands(out, p);
  SourceWriter &c = out.code();
  std::string room = out.scratchPointer(element);
  if (bytes == 0) {
    room = "nullptr";
  } else if (inArena(bytes) == 0) {
    room = depthwise ? "plane" : "patches";
    c.line("alignas(8) " + element + " " + room + "[" +
           std::to_string(depthwise ? bytes : bytes / 4) + "];");
  }
  c.line("cpu::" + kernel.str() + "(" + config + ", x, w, " + std::to_string(*p.zero) + ", " +
         room + ", outs, ins, " + body + ");");
}

//===----------------------------------------------------------------------===//
// conv_pairs
//===----------------------------------------------------------------------===//

struct ConvPairsSchedule {
  int64_t mr, nr; // outputs and filters at a time
  int64_t weightBits = 8;
  int64_t joined = 0; // pairs of filters that share a row of weights

  static llvm::ArrayRef<Field<ConvPairsSchedule>> fields() {
    static const Field<ConvPairsSchedule> kFields[] = {
        {"mr", &ConvPairsSchedule::mr, between(1, 4)},
        {"nr", &ConvPairsSchedule::nr, between(1, 4)},
        weightBitsField<ConvPairsSchedule>(),
        {"joined", &ConvPairsSchedule::joined, oneOf(0, 1, 2), 0},
    };
    return kFields;
  }
};

struct ConvPairs {
  static constexpr llvm::StringLiteral id = "conv_pairs",
                                       summary = "sums of 8-bit integers, two products an "
                                                 "instruction (DSP extension)";
  using Problem = ByteProblem;
  using Schedule = ConvPairsSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    auto p = pairsProblem(in);
    if (!p)
      return p;
    if (auto one = hasOneGroup(*p); !one)
      return std::move(one).refusal();
    const bool run = p->conv().channels == 1 || p->x.strides[1].isConstant(1);
    if (!(run && p->conv().channels % 4 == 0) && p->depth() > kStackBytes)
      return Refusal{"a large patch whose bytes must be collected", ""};
    return p;
  }

  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    const int64_t plane = (p.conv().outHeight * p.conv().outWidth).upper();
    const int64_t filters = p.conv().filters;
    // Weights are widened once for all outputs of a tile, inputs are loaded once for all filters;
    // 14 registers hold no more than these.
    int64_t mr = std::min<int64_t>(plane, 4);
    if (plane > 4 && plane % 4 != 0 && plane % 3 == 0)
      mr = 3; // whole tiles need no code for the last few outputs
    const int64_t nr = mr == 1 && p.in.level.dsp ? std::min<int64_t>(filters, 4) : 1;
    out.push_back({mr, nr, fewestBits(p, 4)});
    if (p.in.joinFilters && joinsFilters(p)) {
      // Pairs of filters leave room for three outputs, or one output for two pairs.
      const int64_t pairs = plane < 3 && filters > 2 ? 2 : 1;
      out.push_back({plane < 3 ? 1 : 3, 2 * pairs, 8, pairs});
    }
  }
  static Result<> legal(const Problem &p, const Schedule &s) {
    if (s.joined == 0)
      return fitsBits<ConvPairs>(p, s);
    if (s.nr != 2 * s.joined || s.weightBits != 8 || (s.joined == 2 && s.mr > 1))
      return impossible<ConvPairs>(s,
                                   "with joined filters nr is twice joined, weights have 8 bits, "
                                   "and two pairs leave registers for mr=1");
    if (!joinsFilters(p))
      return impossible<ConvPairs>(s, "joined filters have no weight of -128, and no sums of 2^23");
    return Accepted{};
  }
  static int64_t weightBits(const Schedule &s) { return s.weightBits; }

  static double microseconds(const Problem &p, const Schedule &s) {
    const double mr = double(s.mr), nr = double(s.nr);
    const double depth = double(llvm::alignTo(p.depth(), 4));
    const double tiles = std::ceil(double(p.pixels()) / mr);
    const double filters = double(p.conv().filters);
    // Four products of each: 2 mr nr multiply-adds, 3 nr for the weights, mr loads; for joined
    // filters nr for the weights and 3 loads.
    const double inner = (2 * mr * nr + (s.joined ? nr + 3 : 3 * nr + mr)) / 4 / nr;
    const double instructions = tiles * (filters * (depth * inner + 9 * mr + 4) + mr * depth * 1.5);
    // Cores without these instructions take several for each: there the kernel is for weights of
    // few bits.
    return instructionTime(p.in.level, p.in.level.dsp ? instructions : 10 * instructions);
  }

  static void pack(const Problem &p, const Schedule &s, llvm::SmallVectorImpl<Packing> &out) {
    packFilters(p, s.joined ? JoinedFilters{s.joined}.word() : storedWeights(s.weightBits, 4), out);
  }
  static int64_t scratch(const Problem &p, const Schedule &s) { return inArena(patchBytes(p, s)); }
  static llvm::Optional<Overlap> overlap(const Problem &p, const Schedule &s) {
    return overlapByTiles(p, s.mr, /*copied=*/!readsBytes(p, s));
  }

  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    emitCall(p, id, printedOf(s), /*depthwise=*/false, patchBytes(p, s), out);
  }

private:
  /// As reads_bytes in runtime/cpu/conv_pairs.h: no patch at all.
  static bool readsBytes(const Problem &p, const Schedule &s) {
    const ConvProblem &conv = p.conv();
    return s.mr == 1 && conv.kernelH == 1 && conv.kernelW == 1 && conv.channels % 4 == 0 &&
           conv.padTop == 0 && conv.padLeft == 0 && p.x.strides[1].isConstant(1);
  }
  static int64_t patchBytes(const Problem &p, const Schedule &s) {
    return readsBytes(p, s) ? 0 : s.mr * 2 * int64_t(llvm::alignTo(p.depth(), 4));
  }
};

//===----------------------------------------------------------------------===//
// depthwise_pairs
//===----------------------------------------------------------------------===//

struct DepthwisePairsSchedule {
  int64_t weightBits = 8;
  int64_t turned = 0; // height and width change places in the plane

  static llvm::ArrayRef<Field<DepthwisePairsSchedule>> fields() {
    static const Field<DepthwisePairsSchedule> kFields[] = {
        weightBitsField<DepthwisePairsSchedule>(),
        {"turned", &DepthwisePairsSchedule::turned, oneOf(0, 1), 0},
    };
    return kFields;
  }
};

struct DepthwisePairs {
  static constexpr llvm::StringLiteral id = "depthwise_pairs",
                                       summary = "depthwise convolution of 8-bit integers by "
                                                 "planes, in pairs with the DSP extension";
  using Problem = ByteProblem;
  using Schedule = DepthwisePairsSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    auto p = pairsProblem(in);
    if (p && (!p->q.isDepthwise() || p->conv().dilationH != 1 || p->conv().dilationW != 1))
      return Refusal{"not depthwise with one filter a channel, or dilated", ""};
    return p;
  }

  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    // With MVE depthwise_quads is for these few weights, as bytes.
    const int64_t bits = p.in.level.mve ? 8 : fewestBits(p, 1);
    out.push_back({bits, 0});
    if (isFixed(p) && p.conv().outHeight.constant() > p.conv().outWidth.constant())
      out.push_back({bits, 1});
  }
  static Result<> legal(const Problem &p, const Schedule &s) {
    if (s.turned && !isFixed(p))
      return impossible<DepthwisePairs>(s, "planes are turned where all extents are known");
    return fitsBits<DepthwisePairs>(p, s);
  }
  static int64_t weightBits(const Schedule &s) { return s.weightBits; }
  /// Tap by tap on cores that multiply no pairs.
  static KeyValues computed(const Problem &p, const Schedule &) {
    return {{"plain", isPlain(p) ? 1 : 0}};
  }

  static double microseconds(const Problem &problem, const Schedule &s) {
    const ConvProblem p = inPlane(problem, s);
    const double words = double(p.kernelH * llvm::divideCeil(p.kernelW, 4));
    const auto height = double(p.outHeight.upper()), rows = double(p.inHeight.upper());
    const int64_t columns = reachOf(problem, p).columns;
    const auto tiles = double(llvm::divideCeil(p.outWidth.upper(), columns));
    const double products =
        isPlain(problem) ? 3 * double(p.kernelH * p.kernelW) : words * (3 + 2 * double(columns));
    // A channel: its taps; rows to copy, and 3 for a byte; rows of sums, and a tile's products; 8
    // for the body of an output.
    const double copied = rows * (20 + 3 * double(p.inWidth.upper())),
                 summed = height * (14 + tiles * (5 + products)),
                 finished = height * 8 * double(p.outWidth.upper());
    return instructionTime(problem.in.level,
                           double(p.batch.upper() * p.groups) * (150 + copied + summed + finished));
  }

  static void pack(const Problem &p, const Schedule &s, llvm::SmallVectorImpl<Packing> &out) {
    packFilters(p, storedWeights(s.weightBits, 1), out);
  }
  static int64_t scratch(const Problem &p, const Schedule &s) { return inArena(planeBytes(p, s)); }
  static llvm::Optional<Overlap> overlap(const Problem &p, const Schedule &) {
    return overlapByChannels(p);
  }

  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    KeyValues members = printedOf(s);
    if (isPlain(p)) // before `turned`
      members.insert(members.end() - s.turned, {"plain", 1});
    emitCall(p, id, members, /*depthwise=*/true, planeBytes(p, s), out);
  }

private:
  static bool isPlain(const Problem &p) { return !p.in.level.dsp; }
  static bool isFixed(const Problem &p) {
    const ConvProblem &c = p.conv();
    return c.inHeight.isConstant() && c.inWidth.isConstant() && c.outHeight.isConstant() &&
           c.outWidth.isConstant();
  }
  /// The problem as it lies in the plane.
  static ConvProblem inPlane(const Problem &p, const Schedule &s) {
    return s.turned ? turned(p.conv()) : p.conv();
  }
  /// As taps_of in runtime/cpu/depthwise_pairs.h: outputs at once, and the bytes of a row that they
  /// read.
  struct TapReach {
    int64_t columns, bytes;
  };
  static TapReach reachOf(const Problem &problem, const ConvProblem &p) {
    if (isPlain(problem))
      return {1, p.kernelW};
    if (p.kernelW == 3 && p.strideW <= 2)
      return {2, 2 + 2 * p.strideW};
    return {1, 4 * int64_t(llvm::divideCeil(p.kernelW, 4))};
  }
  /// As plane_bytes in runtime/cpu/depthwise_pairs.h.
  static int64_t planeBytes(const Problem &problem, const Schedule &s) {
    const ConvProblem p = inPlane(problem, s);
    const TapReach reach = reachOf(problem, p);
    const auto tiles = int64_t(llvm::divideCeil(p.outWidth.upper(), reach.columns));
    const int64_t width = (tiles - 1) * reach.columns * p.strideW + reach.bytes;
    return width * ((p.outHeight.upper() - 1) * p.strideH + p.kernelH);
  }
};

} // namespace

const Tactic &kConvPairs = kTacticOf<ConvPairs>;
const Tactic &kDepthwisePairs = kTacticOf<DepthwisePairs>;

} // namespace tenon::cpu
