// Defines the tactics `topk`, `topk_rows` and `topk_sorted`: the largest or smallest elements along
// one dimension (runtime/cuda/topk*.cuh).
#include "codegen/cuda/Tactics.h"

#include "codegen/AnchorForms.h"
#include "codegen/cuda/Common.h"
#include "codegen/cuda/Sort.h"

namespace tenon::cuda {
namespace {

bool match(const TacticInput &in, std::string &why) {
  return matchAnchor(in, Op::TopK, why) && isUnbounded(in.form.anchorInputs[0], why) &&
         fitsInt(in.form, why);
}

Dim rowLength(const GroupForm &form) {
  return form.anchor->operand(0)->type().dim(unsigned(form.anchor->intAttr("axis")));
}

void enumerate(const TacticInput &, llvm::SmallVectorImpl<Schedule> &out) {
  out.push_back({"topk", {}});
}

/// Every element is compared with its whole row, and however few the rows, a thread waits for one
/// batch of a row after the other; a warp that has elements of two rows goes along both. Source: 1
/// to 512 rows of 256 to 100,000 elements, each alone (H200, tenon bench --profile).
double cost(const TacticInput &in, const Schedule &) {
  constexpr int64_t kWarp = 32;
  const Type x = in.form.anchor->operand(0)->type();
  const double n = double(rowLength(in.form).upper()), elements = double(x.upperElements());
  const bool inTwoRows = elements > n && rowLength(in.form).upper() % kWarp != 0;
  const double microsecondsOfAnElement = inTwoRows ? 0.03 : 0.015;
  Effort e;
  e.operations = elements * n * 4;
  e.efficiency = 0.25;
  e.blocks = elements / 128;
  e.launches = 0;
  return in.level.launchMicroseconds +
         std::max(n * microsecondsOfAnElement, microseconds(in.level, e));
}

/// Configuration, x, outs and ins; the arguments of the kernel that writes the results.
std::vector<std::string> emitOperands(const TacticInput &in, StepWriter &out,
                                      std::optional<SortBlock> block = {}) {
  const GroupForm &form = in.form;
  const Operation &op = *form.anchor;
  const Type x = op.operand(0)->type();
  const AxisLast last = axisLast(x, unsigned(op.intAttr("axis")));
  llvm::SmallVector<Dim, 6> space = last.others;
  space.push_back(x.dim(last.axis));
  StepWriter::Config cfg(out, "config");
  cfg.extents("space", space).extent("k", op.dimsAttr("k")[0]);
  cfg.flag("largest", op.boolAttr("largest", true));
  if (block)
    cfg.number("threads", block->threads).number("run", block->run);
  const std::string config = cfg.finish();
  const std::string view = operandView(out, form.anchorInputs[0], last, last.placeOf, "prologue");
  const std::string body = out.body(form.body, {x.element(), Element::I64});
  SourceWriter &w = out.code();
  w.line("const auto x = " + view + ";");
  w.line("const auto outs = " + out.outputs(form, last) + ";");
  w.line("const auto ins = " + inputsIn(out, form.body, last, last.placeOf) + ";");
  return {config, "x", "outs", "ins", body};
}

void emit(const TacticInput &in, const Schedule &, StepWriter &out) {
  out.include("cuda/topk.cuh");
  launch(out, "topk", emitOperands(in, out));
}

//===----------------------------------------------------------------------===//
// topk_sorted
//===----------------------------------------------------------------------===//

/// As runtime/cuda/topk_sorted.cuh makes them: of floats as f32.
int64_t largestKey(Element e) {
  return isFloat(e) ? UINT32_MAX : (int64_t(1) << std::max(bitWidth(e), 8u)) - 1;
}

bool matchSorted(const TacticInput &in, std::string &why) {
  if (!match(in, why))
    return false;
  why = "the elements have more than 32 bits";
  return bitWidth(in.form.anchor->operand(0)->type().element()) <= 32;
}

void enumerateSorted(const TacticInput &, llvm::SmallVectorImpl<Schedule> &out) {
  out.push_back({"topk_sorted", {}});
}

/// A row may be shorter than its bound, no row longer.
SortedRows sortedRows(const TacticInput &in) {
  const Type x = in.form.anchor->operand(0)->type();
  int64_t rows = 1;
  for (unsigned d = 0; d < x.rank(); ++d)
    if (int64_t(d) != in.form.anchor->intAttr("axis"))
      rows *= x.dim(d).upper();
  return {rows, rowLength(in.form).upper(), largestKey(x.element())};
}

double costSorted(const TacticInput &in, const Schedule &) {
  const SortedRows s = sortedRows(in);
  Effort own;
  own.bytes =
      double(s.items()) * (8 + double(bitWidth(in.form.anchor->operand(0)->type().element())) / 8);
  own.launches = 2;
  return microseconds(in.level, own) + sortCost(in.level, s);
}

int64_t scratchSorted(const TacticInput &in, const Schedule &) { return sortBytes(sortedRows(in)); }

void emitSorted(const TacticInput &in, const Schedule &, StepWriter &out) {
  out.include("cuda/topk_sorted.cuh");
  std::vector<std::string> arguments = emitOperands(in, out);
  const std::string config = arguments[0];
  const SortedRows s = sortedRows(in);
  beginSort(out, s, "cuda::volume(" + config + ".space)");
  out.code().line("TENON_CHECK(to.launch<V>(cuda::topk_keys(" + config + ", x, sort)));");
  arguments.push_back(emitSort(out, in.level, s, "cuda::topk_length(" + config + ")"));
  launch(out, "topk_sorted", arguments);
}

//===----------------------------------------------------------------------===//
// topk_rows
//===----------------------------------------------------------------------===//

std::optional<SortBlock> blockOf(const TacticInput &in) {
  const SortedRows s = sortedRows(in);
  return sortBlock(in.level, s.rows, s.length);
}

bool matchRows(const TacticInput &in, std::string &why) {
  if (!matchSorted(in, why))
    return false;
  why = "a row is longer than what a block holds";
  return blockOf(in).has_value();
}

void enumerateRows(const TacticInput &in, llvm::SmallVectorImpl<Schedule> &out) {
  if (const std::optional<SortBlock> block = blockOf(in))
    out.push_back({"topk_rows", {{"threads", block->threads}, {"run", block->run}}});
}

SortBlock blockOf(const Schedule &s) { return {*s.get("threads"), *s.get("run")}; }

/// What a block does beside its sort is little.
double costRows(const TacticInput &in, const Schedule &s) {
  const SortedRows sorted = sortedRows(in);
  return in.level.launchMicroseconds +
         sortBlockCost(in.level, sorted.rows, blockOf(s), sorted.largestKey);
}

void emitRows(const TacticInput &in, const Schedule &s, StepWriter &out) {
  out.include("cuda/topk_rows.cuh");
  launch(out, "topk_rows", emitOperands(in, out, blockOf(s)));
}

} // namespace

const Tactic kTopK = {
    "topk", "the largest elements along one dimension", match, enumerate, cost, nullptr, nullptr,
    emit};
const Tactic kTopKSorted = {"topk_sorted", "the largest elements of long rows, by a sort",
                            matchSorted,   enumerateSorted,
                            costSorted,    nullptr,
                            scratchSorted, emitSorted};
const Tactic kTopKRows = {"topk_rows", "the largest elements of rows that a block sorts",
                          matchRows,   enumerateRows,
                          costRows,    nullptr,
                          nullptr,     emitRows};

} // namespace tenon::cuda
