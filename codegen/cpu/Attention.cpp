// Defines the tactic `attention`: one pass over keys and values for a block of queries, whose
// scores stay in the first cache (runtime/cpu/attention.h).
#include "codegen/core/TargetFamily.h"
#include "codegen/cpu/Tactics.h"

#include "codegen/AttentionForm.h"
#include "codegen/cpu/Operands.h"

#include "llvm/Support/MathExtras.h"

namespace tenon::cpu {
namespace {

/// Larger heads do not fit the stack that a block may take.
constexpr int64_t kLargestHead = 256;
/// Keys whose scores are held at once, or a few more to make whole blocks.
constexpr int64_t kTile = 64;

bool match(const TacticInput &in, std::string &why) {
  if (!matchAttention(in, kLargestHead, 1, why))
    return false;
  if (!in.level.family->facts.hosted)
    why = "blocks too large for small stacks";
  else if (in.form.anchor->operand(0)->type().element() == Element::F64)
    why = "elements of f64";
  return why.empty();
}

/// Registers of queries, and keys or elements of values, whose sums stay in registers beside the
/// queries and one broadcast.
struct Shape {
  int64_t vectors, rows;
};
llvm::ArrayRef<Shape> shapes(const TargetLevel &level) {
  static const Shape kSixteen[] = {{3, 4}, {2, 6}, {1, 12}};
  static const Shape kThirtyTwo[] = {{4, 6}, {3, 8}, {2, 12}, {1, 16}};
  if (level.simdRegisters >= 32)
    return kThirtyTwo;
  return kSixteen;
}

void enumerate(const TacticInput &in, llvm::SmallVectorImpl<Schedule> &out) {
  const int64_t queries = std::max<int64_t>(1, AttentionForm(in.form).queries().upper());
  const auto needed = int64_t(llvm::divideCeil(queries, lanesFor(in.level, Element::F32)));
  for (const Shape &s : shapes(in.level))
    if (s.vectors <= needed || s.vectors == 1)
      out.push_back({"attention", {{"vectors", s.vectors}, {"rows", s.rows}}});
}

/// Multiply-adds of whole blocks, and for each score as much again as 16 of them for its
/// exponential and the search of the largest.
double cost(const TacticInput &in, const Schedule &s) {
  const AttentionForm p(in.form);
  const auto vectors = double(*s.get("vectors")), rows = double(*s.get("rows"));
  const int64_t block = *s.get("vectors") * lanesFor(in.level, Element::F32);
  auto whole = [](int64_t n, int64_t step) { return double(llvm::divideCeil(n, step) * step); };
  const double queries = whole(p.queries().upper(), block), keys = double(p.keys().upper());
  const auto depth = double(p.depth().upper());
  const double elements = whole(p.extent().upper(), *s.get("rows"));
  // Loads beside the multiply-adds, and the sums that hide their latency.
  const double sums = vectors * rows;
  const double efficiency = sums / (sums + 0.1 * rows + 0.5 * vectors) * std::min(1.0, sums / 12);
  const double macs = p.visibleShare() * p.heads() * queries * keys * (depth + elements + 16);
  // Every block of queries reads all keys and values again, from some cache.
  const double bytes = 4 * p.heads() * queries / double(block) * keys * (depth + elements);
  return 2 * macs / (in.level.peakGflops * 1e3 * efficiency) +
         bytes / (in.level.bandwidthGBs * 4e3);
}

void emit(const TacticInput &in, const Schedule &s, StepWriter &out) {
  const AttentionForm p(in.form);
  out.include("cpu/attention.h");
  StepWriter::Config cfg(out, "config", "cpu::attention_defaults");
  p.configure(cfg);
  const int64_t rows = *s.get("rows");
  cfg.number("vectors", *s.get("vectors")).number("rows", rows);
  cfg.number("tile", int64_t(llvm::divideCeil(kTile, rows)) * rows);
  const std::string config = cfg.finish();
  p.writeViews(out);
  out.code().line("cpu::attention(" + config + ", " + out.dims().list(p.leading()) + ", " +
                  cppScalar(Element::F32, in.form.anchor->floatAttr("scale")) +
                  ", q, k, v, bias, y, *f.workers);");
}

} // namespace

const Tactic kAttention = {
    "attention", "attention, blocks of queries over tiles of keys and values",
    match,       enumerate,
    cost,        nullptr,
    nullptr,     emit};

} // namespace tenon::cpu
