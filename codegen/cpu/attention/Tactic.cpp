// Defines the tactic `attention`: one pass over keys and values for a block of queries, whose
// scores stay in the first cache (runtime/cpu/attention.h).
#include "codegen/core/TacticOf.h"
#include "codegen/core/TargetFamily.h"
#include "codegen/cpu/shared/Operands.h"
#include "codegen/forms/AttentionForm.h"

#include "llvm/Support/MathExtras.h"

namespace tenon::cpu {
namespace {

/// Larger heads do not fit the stack that a block may take.
constexpr int64_t kLargestHead = 256;
/// Keys whose scores are held at once, or a few more to make whole blocks.
constexpr int64_t kTile = 64;

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

struct AttentionSchedule {
  int64_t vectors, rows;

  static llvm::ArrayRef<Field<AttentionSchedule>> fields() {
    static const Field<AttentionSchedule> kFields[] = {
        {"vectors", &AttentionSchedule::vectors, oneOf(1, 2, 3, 4)},
        {"rows", &AttentionSchedule::rows, oneOf(4, 6, 8, 12, 16)},
    };
    return kFields;
  }
};

struct Attention {
  static constexpr llvm::StringLiteral id = "attention",
                                       summary = "attention, blocks of queries over tiles of keys "
                                                 "and values";
  struct Problem {
    GroupQuery in;
    AttentionForm attention;
  };
  using Schedule = AttentionSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    return matchAttention(in, kLargestHead, 1, {.order = true, .parts = true})
        .andThen([&]() -> Result<Problem> {
          if (!in.level.family->facts.hosted)
            return Refusal{"blocks too large for small stacks", ""};
          if (in.form.anchor->operand(0)->type().element() == Element::F64)
            return Refusal{"elements of f64", ""};
          return Problem{in, AttentionForm(in.form)};
        });
  }

  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    const int64_t queries = std::max<int64_t>(1, p.attention.queries().upper());
    const auto needed = int64_t(llvm::divideCeil(queries, lanesFor(p.in.level, Element::F32)));
    for (const Shape &s : shapes(p.in.level))
      if (s.vectors <= needed || s.vectors == 1)
        out.push_back({s.vectors, s.rows});
  }

  /// Multiply-adds of whole blocks, and for each score as much again as 16 of them for its
  /// exponential and the search of the largest.
  static double microseconds(const Problem &problem, const Schedule &s) {
    const AttentionForm &p = problem.attention;
    const TargetLevel &level = problem.in.level;
    const auto vectors = double(s.vectors), rows = double(s.rows);
    const int64_t block = s.vectors * lanesFor(level, Element::F32);
    auto whole = [](int64_t n, int64_t step) { return double(llvm::divideCeil(n, step) * step); };
    const double queries = whole(p.queries().upper(), block), keys = double(p.keys().upper());
    const auto depth = double(p.depth().upper());
    const double elements = whole(p.extent().upper(), s.rows);
    // Loads beside the multiply-adds, and the sums that hide their latency.
    const double sums = vectors * rows;
    const double efficiency = sums / (sums + 0.1 * rows + 0.5 * vectors) * std::min(1.0, sums / 12);
    const double macs = p.visibleShare() * p.heads() * queries * keys * (depth + elements + 16);
    // Every block of queries reads all keys and values again, from some cache.
    const double bytes = 4 * p.heads() * queries / double(block) * keys * (depth + elements);
    return 2 * macs / (level.peakGflops * 1e3 * efficiency) + bytes / (level.bandwidthGBs * 4e3);
  }

  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    out.include("cpu/attention.h");
    StepWriter::Config cfg(out, "config", "cpu::attention_defaults");
    p.attention.configure(cfg);

    cfg.number("vectors", s.vectors).number("rows", s.rows);
    cfg.number("tile", int64_t(llvm::divideCeil(kTile, s.rows)) * s.rows);
    const std::string config = cfg.finish();
    p.attention.writeViews(out);
    out.code().line("cpu::attention(" + config + ", " + out.dims().list(p.attention.leading()) +
                    ", " + cppScalar(Element::F32, p.in.form.anchor->floatAttr("scale")) +
                    ", q, k, v, bias, y, *f.workers" + (p.attention.hasOrder() ? ", order" : "") +
                    ");");
  }
};

} // namespace

const Tactic &kAttention = kTacticOf<Attention>;

} // namespace tenon::cpu
