// Defines the tactics `conv_pairs` and `depthwise_pairs`: sums of 8-bit integers on cores that
// multiply two pairs of 16-bit integers at once (runtime/cpu/conv_pairs.h, depthwise_pairs.h).
// conv_pairs takes matrix products, too, as convolutions of one row.
#include "codegen/core/TargetFamily.h"
#include "codegen/cpu/ByteContraction.h"
#include "codegen/cpu/Tactics.h"

#include "llvm/Support/MathExtras.h"

#include <cmath>

namespace tenon::cpu {
namespace {

/// Memory on the stack up to this many bytes, in the arena beyond: small enough for any stack, and
/// most layers then take nothing from the arena's largest moment.
constexpr int64_t kStackBytes = 512;

/// What both kernels ask for beyond that: results that lie along one line of pixels.
llvm::Optional<ByteContraction> matchPairs(const TacticInput &in, std::string &why) {
  if (in.level.family->facts.hosted) {
    why = "not for a microcontroller";
    return llvm::None;
  }
  auto q = matchByteContraction(in, why);
  if (!q || !readsAlongLine(in, *q, why))
    return llvm::None;
  return q;
}

bool matchConv(const TacticInput &in, std::string &why) {
  auto q = matchPairs(in, why);
  if (!q)
    return false;
  const ConvProblem &p = q->conv;
  if (p.groups != 1) {
    why = "several groups";
    return false;
  }
  const bool run = p.channels == 1 || inputStrides(in.form, *q).strides[1].isConstant(1);
  if (!(run && p.channels % 4 == 0) && p.channels * p.kernelH * p.kernelW > kStackBytes) {
    why = "a large patch whose bytes must be collected";
    return false;
  }
  return true;
}

bool matchDepthwise(const TacticInput &in, std::string &why) {
  auto q = matchPairs(in, why);
  if (!q)
    return false;
  if (!q->isDepthwise() || q->conv.dilationH != 1 || q->conv.dilationW != 1) {
    why = "not depthwise with one filter a channel, or dilated";
    return false;
  }
  return true;
}

int64_t pixels(const ConvProblem &p) { return (p.batch * p.outHeight * p.outWidth).upper(); }

void enumerateConv(const TacticInput &in, llvm::SmallVectorImpl<Schedule> &out) {
  std::string why;
  const ConvProblem p = byteContraction(*in.form.anchor, why)->conv;
  const int64_t plane = (p.outHeight * p.outWidth).upper();
  // Weights are widened once for all outputs of a tile, inputs are loaded once for all filters; 14
  // registers hold no more than these.
  int64_t mr = std::min<int64_t>(plane, 4);
  if (plane > 4 && plane % 4 != 0 && plane % 3 == 0)
    mr = 3; // whole tiles need no code for the last few outputs
  const int64_t nr = mr == 1 && in.level.dsp ? std::min<int64_t>(p.filters, 4) : 1;
  out.push_back({"conv_pairs", {{"mr", mr}, {"nr", nr}}});
  addWeightBits(in, 4, out.back());
  if (joinsFilters(in)) {
    // Pairs of filters leave room for three outputs, or one output for two pairs.
    const int64_t pairs = plane < 3 && p.filters > 2 ? 2 : 1;
    out.push_back(
        {"conv_pairs", {{"mr", plane < 3 ? 1 : 3}, {"nr", 2 * pairs}, {"joined", pairs}}});
  }
}

void enumerateDepthwise(const TacticInput &in, llvm::SmallVectorImpl<Schedule> &out) {
  std::string why;
  const ConvProblem p = byteContraction(*in.form.anchor, why)->conv;
  Schedule schedule{"depthwise_pairs", {}};
  if (!in.level.mve) // else depthwise_quads is for these few weights, as bytes
    addWeightBits(in, 1, schedule);
  if (!in.level.dsp)
    schedule.params.push_back({"plain", 1});
  out.push_back(schedule);
  const bool fixed =
      llvm::all_of(llvm::ArrayRef<Dim>{p.inHeight, p.inWidth, p.outHeight, p.outWidth},
                   [](Dim d) { return d.isConstant(); });
  if (fixed && p.outHeight.constant() > p.outWidth.constant()) {
    out.push_back(std::move(schedule));
    out.back().params.push_back({"turned", 1});
  }
}

/// Cores without these instructions take several for each: there the kernels are for weights of few
/// bits.
double pairsTime(const TacticInput &in, double instructions) {
  return instructionTime(in.level, in.level.dsp ? instructions : 10 * instructions);
}

double costConv(const TacticInput &in, const Schedule &s) {
  std::string why;
  const ConvProblem p = byteContraction(*in.form.anchor, why)->conv;
  const double mr = double(*s.get("mr")), nr = double(*s.get("nr"));
  const double depth = double(llvm::alignTo(p.channels * p.kernelH * p.kernelW, 4));
  const double tiles = std::ceil(double(pixels(p)) / mr);
  const double filters = double(p.filters);
  // Four products of each: 2 mr nr multiply-adds, 3 nr for the weights, mr loads; for joined
  // filters nr for the weights and 3 loads.
  const double inner = (2 * mr * nr + (s.get("joined") ? nr + 3 : 3 * nr + mr)) / 4 / nr;
  return pairsTime(in, tiles * (filters * (depth * inner + 9 * mr + 4) + mr * depth * 1.5));
}

/// The problem as it lies in the plane of depthwise_pairs.
ConvProblem inPlane(ConvProblem p, const Schedule &s) {
  if (s.get("turned")) {
    std::swap(p.inHeight, p.inWidth);
    std::swap(p.outHeight, p.outWidth);
    std::swap(p.kernelH, p.kernelW);
    std::swap(p.strideH, p.strideW);
    std::swap(p.padTop, p.padLeft);
  }
  return p;
}

/// As taps_of in runtime/cpu/depthwise_pairs.h: outputs at once, and the bytes of a row that they
/// read.
struct TapReach {
  int64_t columns, bytes;
};
TapReach reachOf(const ConvProblem &p, const Schedule &s) {
  if (s.get("plain"))
    return {1, p.kernelW};
  if (p.kernelW == 3 && p.strideW <= 2)
    return {2, 2 + 2 * p.strideW};
  return {1, 4 * int64_t(llvm::divideCeil(p.kernelW, 4))};
}

double costDepthwise(const TacticInput &in, const Schedule &s) {
  std::string why;
  const ConvProblem p = inPlane(byteContraction(*in.form.anchor, why)->conv, s);
  const double words = double(p.kernelH * llvm::divideCeil(p.kernelW, 4));
  const auto height = double(p.outHeight.upper()), rows = double(p.inHeight.upper());
  const int64_t columns = reachOf(p, s).columns;
  const auto tiles = double(llvm::divideCeil(p.outWidth.upper(), columns));
  const double products =
      s.get("plain") ? 3 * double(p.kernelH * p.kernelW) : words * (3 + 2 * double(columns));
  // A channel: its taps; rows to copy, and 3 for a byte; rows of sums, and a tile's products; 8 for
  // the body of an output.
  const double copied = rows * (20 + 3 * double(p.inWidth.upper())),
               summed = height * (14 + tiles * (5 + products)),
               finished = height * 8 * double(p.outWidth.upper());
  return instructionTime(in.level,
                         double(p.batch.upper() * p.groups) * (150 + copied + summed + finished));
}

int64_t patchBytes(const TacticInput &in, const ByteContraction &q, const Schedule &s) {
  const ConvProblem &p = q.conv;
  if (readsBytes(in, q, s))
    return 0;
  return *s.get("mr") * 2 * int64_t(llvm::alignTo(p.channels * p.kernelH * p.kernelW, 4));
}

/// As plane_bytes in runtime/cpu/depthwise_pairs.h.
int64_t planeBytes(const ConvProblem &problem, const Schedule &s) {
  const ConvProblem p = inPlane(problem, s);
  const TapReach reach = reachOf(p, s);
  const auto tiles = int64_t(llvm::divideCeil(p.outWidth.upper(), reach.columns));
  const int64_t width = (tiles - 1) * reach.columns * p.strideW + reach.bytes;
  return width * ((p.outHeight.upper() - 1) * p.strideH + p.kernelH);
}

int64_t inArena(int64_t bytes) { return bytes <= kStackBytes ? 0 : bytes; }

int64_t scratchConv(const TacticInput &in, const Schedule &s) {
  std::string why;
  return inArena(patchBytes(in, *byteContraction(*in.form.anchor, why), s));
}

int64_t scratchDepthwise(const TacticInput &in, const Schedule &s) {
  std::string why;
  return inArena(planeBytes(byteContraction(*in.form.anchor, why)->conv, s));
}

void emit(const TacticInput &in, const Schedule &s, StepWriter &out) {
  const GroupForm &form = in.form;
  std::string why;
  const ByteContraction q = *byteContraction(*form.anchor, why);
  const ConvProblem &p = q.conv;
  const bool depthwise = s.tactic == "depthwise_pairs";

  out.include("cpu/" + s.tactic + ".h");
  StepWriter::Config cfg(out, "config", "cpu::conv_defaults");
  writeExtents(cfg, q, depthwise);
  for (auto &[key, value] : s.params)
    cfg.number(key, value);
  const std::string config = cfg.finish();

  const std::string body = out.body(form.body, {Element::I32});
  const std::string element =
      depthwise ? cppElement(form.anchor->operand(0)->type().element()).str() : "uint32_t";
  const int64_t bytes = depthwise ? planeBytes(p, s) : patchBytes(in, q, s);
  writeOperands(out, form, q);
  SourceWriter &c = out.code();
  std::string room = out.scratchPointer(element);
  if (bytes == 0) {
    room = "nullptr";
  } else if (inArena(bytes) == 0) {
    room = depthwise ? "plane" : "patches";
    c.line("alignas(8) " + element + " " + room + "[" +
           std::to_string(depthwise ? bytes : bytes / 4) + "];");
  }
  c.line("cpu::" + s.tactic + "(" + config + ", x, w, " + std::to_string(*zeroPoint(form, why)) +
         ", " + room + ", outs, ins, " + body + ");");
}

} // namespace

const Tactic kConvPairs = {
    "conv_pairs", "sums of 8-bit integers, two products an instruction (DSP extension)",
    matchConv,    enumerateConv,
    costConv,     packFilters<4>,
    scratchConv,  emit};
const Tactic kDepthwisePairs = {
    "depthwise_pairs",
    "depthwise convolution of 8-bit integers by planes, in pairs with the DSP extension",
    matchDepthwise,
    enumerateDepthwise,
    costDepthwise,
    packFilters<1>,
    scratchDepthwise,
    emit};

} // namespace tenon::cpu
