// Defines the tactics `conv_bytes` and `depthwise_bytes`: convolutions and matrix products of 8-bit
// integers on x86-64 (runtime/cpu/conv_bytes.h, depthwise_bytes.h), with the instructions for them
// that the machine has.
#include "codegen/cpu/Tactics.h"

#include "codegen/Work.h"
#include "codegen/cpu/ByteContraction.h"
#include "codegen/cpu/Operands.h"
#include "codegen/cpu/Tile.h"

#include "llvm/Support/MathExtras.h"

namespace tenon::cpu {
namespace {

/// Whether the level multiplies vectors of 16-bit integers pair by pair.
bool hasPairs(const TargetLevel &level) { return level.name.startswith("x86-64"); }

/// Words of four bytes of one patch, whose runs are rows of taps or the channels of taps.
int64_t wordsOf(const ConvProblem &p, bool rowRuns) {
  return p.kernelH * (rowRuns ? p.channels * int64_t(llvm::divideCeil(p.kernelW, 4))
                              : p.kernelW * int64_t(llvm::divideCeil(p.channels, 4)));
}
/// Runs are what lies side by side: channels, unless there is one or they are planes.
bool rowRuns(const TacticInput &in, const ByteContraction &q) {
  if (q.conv.channels == 1)
    return true;
  const Strides x = inputStrides(in.form, q);
  return !x.strides[1].isConstant(1) && x.strides[3].isConstant(1) &&
         wordsOf(q.conv, true) <= wordsOf(q.conv, false);
}
int64_t wordsOf(const TacticInput &in, const ByteContraction &q) {
  return wordsOf(q.conv, rowRuns(in, q));
}

/// Patches of one tile are on the stack, of two words for each of theirs.
constexpr int64_t kMostWords = 4096;

/// What both kernels ask for: 8-bit operands, constant int8 weights.
llvm::Optional<ByteContraction> matchBytes(const TacticInput &in, std::string &why) {
  if (!hasPairs(in.level)) {
    why = "no vectors of pairs of 16-bit integers";
    return llvm::None;
  }
  return matchByteContraction(in, why);
}

bool matchConv(const TacticInput &in, std::string &why) {
  const auto q = matchBytes(in, why);
  if (!q)
    return false;
  if (q->conv.groups != 1) {
    why = "several groups";
    return false;
  }
  if (wordsOf(in, *q) > kMostWords) {
    why = "patches too large for the stack";
    return false;
  }
  return true;
}

bool matchDepthwise(const TacticInput &in, std::string &why) {
  const auto q = matchBytes(in, why);
  if (!q)
    return false;
  if (!q->isDepthwise()) {
    why = "not depthwise with one filter a channel";
    return false;
  }
  if (q->conv.kernelH * q->conv.kernelW > 64) { // taps are unrolled
    why = "a large window";
    return false;
  }
  return true;
}

int64_t pixels(const ConvProblem &p) {
  return std::max<int64_t>(1, (p.outHeight * p.outWidth).upper());
}

void enumerateConv(const TacticInput &in, llvm::SmallVectorImpl<Schedule> &out) {
  std::string why;
  const ConvProblem p = byteContraction(*in.form.anchor, why)->conv;
  for (const TileShape &t :
       tileShapes(pixels(p), p.filters, in.level.simdWidth, in.level.simdRegisters))
    out.push_back({"conv_bytes", {{"mr", t.mr}, {"nr", t.nr}}});
}

/// Two products of 16-bit integers, as every machine of the level has them, take the time of one
/// float multiply-add and an addition.
double costConv(const TacticInput &in, const Schedule &s) {
  std::string why;
  const ByteContraction q = *byteContraction(*in.form.anchor, why);
  const ConvProblem &p = q.conv;
  return tileCost(in.level, {*s.get("mr"), *s.get("nr")}, in.level.simdWidth, pixels(p), p.filters,
                  double(wordsOf(in, q)) * 2, double(p.batch.upper())) +
         double(workOf(*in.form.group).bytes) / (in.level.bandwidthGBs * 1e3) * 0.2;
}

void enumerateDepthwise(const TacticInput &in, llvm::SmallVectorImpl<Schedule> &out) {
  std::string why;
  const ConvProblem p = byteContraction(*in.form.anchor, why)->conv;
  const int64_t most = std::max<int64_t>(
      1, std::min<int64_t>(8, int64_t(in.level.simdRegisters) - 2 * p.kernelW - 3));
  const int64_t width = std::max<int64_t>(1, p.outWidth.upper());
  out.push_back(
      {"depthwise_bytes", {{"mr", llvm::divideCeil(width, llvm::divideCeil(width, most))}}});
}

double costDepthwise(const TacticInput &in, const Schedule &) {
  const Work w = workOf(*in.form.group);
  return std::max(w.flops / (in.level.peakGflops * 0.25e3),
                  double(w.bytes) / (in.level.bandwidthGBs * 1e3));
}

void packConv(const TacticInput &in, const Schedule &, llvm::SmallVectorImpl<Packing> &out) {
  std::string why;
  const ByteContraction q = *byteContraction(*in.form.anchor, why);
  const Value *source = in.form.anchorInputs[1].inputs[0].source;
  const Type w = source->type();
  const int64_t lanes = in.level.simdWidth;
  llvm::SmallVector<LayoutAxis, 8> axes;
  // Of each filter a line whose last dimension, the run, goes by fours.
  llvm::SmallVector<int, 6> line;
  if (q.matrix) {
    line = {q.transB ? 1 : 0};
  } else {
    for (unsigned d = 2; d < w.rank(); ++d)
      line.push_back(int(d));
    // A row of taps is of a 1-d image turned upright its only line.
    const bool rows = rowRuns(in, q);
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

void packDepthwise(const TacticInput &in, const Schedule &, llvm::SmallVectorImpl<Packing> &out) {
  std::string why;
  const ByteContraction q = *byteContraction(*in.form.anchor, why);
  const Value *source = in.form.anchorInputs[1].inputs[0].source;
  const Type w = source->type();
  const int64_t width = in.level.simdWidth;
  // Rows of the kernel go by fours. Those of a 1-d window are its one channel, upright its columns.
  int rows = w.rank() == 3 ? 1 : 2, columns = w.rank() == 3 ? 2 : 3;
  if (q.upright)
    std::swap(rows, columns);
  llvm::SmallVector<LayoutAxis, 8> axes;
  axes.push_back({0, width, false, Dim(), 0});
  axes.push_back({rows, 4, false, Dim(), 0});
  if (w.rank() > 3)
    axes.push_back({1, 0, false, Dim(), 0});
  axes.push_back({columns, 0, false, Dim(), 0});
  axes.push_back({0, width, true, Dim(), 0});
  axes.push_back({rows, 4, true, Dim(), 0});
  out.push_back({source->index(), Layout::get(w.context(), axes)});
}

/// Sums of each filter's weights, for whole blocks of `block`.
std::string weightSums(const GroupForm &form, const ByteContraction &q, int64_t block) {
  const Tensor &w = **constantOperand(form, 1)->def()->find("value")->get<Literal>();
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

void emit(const TacticInput &in, const Schedule &s, StepWriter &out) {
  const GroupForm &form = in.form;
  std::string why;
  const ByteContraction q = *byteContraction(*form.anchor, why);
  const bool depthwise = s.tactic == "depthwise_bytes";

  out.include("cpu/" + s.tactic + ".h");
  StepWriter::Config cfg(out, "config",
                         depthwise ? "cpu::depthwise_defaults" : "cpu::conv_defaults");
  writeExtents(cfg, q, depthwise);
  for (auto &[key, value] : s.params)
    cfg.number(key, value);
  if (!depthwise)
    cfg.flag("row_runs", rowRuns(in, q));
  const std::string config = cfg.finish();

  const std::string body = out.body(form.body, {Element::I32});
  writeOperands(out, form, q);
  SourceWriter &c = out.code();
  c.line("static constexpr int32_t sums[] = {" + weightSums(form, q, in.level.simdWidth) + "};");
  c.line("cpu::" + s.tactic + "(" + config + ", x, w, sums, " +
         std::to_string(*zeroPoint(form, why)) + ", outs, ins, " + body + ", *f.workers);");
}

} // namespace

const Tactic kConvBytes = {
    "conv_bytes", "sums of 8-bit integers, four products a lane (VNNI, or pairs)",
    matchConv,    enumerateConv,
    costConv,     packConv,
    nullptr,      emit};
const Tactic kDepthwiseBytes = {
    "depthwise_bytes", "depthwise convolution of 8-bit integers, four taps a lane",
    matchDepthwise,    enumerateDepthwise,
    costDepthwise,     packDepthwise,
    nullptr,           emit};

} // namespace tenon::cpu
