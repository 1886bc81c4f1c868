// Defines the tactics `topk`, `topk_rows` and `topk_sorted`: the largest or smallest elements along
// one dimension (runtime/cuda/topk*.cuh).
#include "codegen/core/TacticOf.h"
#include "codegen/cuda/shared/Common.h"
#include "codegen/cuda/shared/Sort.h"
#include "codegen/forms/AnchorForms.h"
#include "runtime/cuda/sort/geometry.h"

namespace tenon::cuda {
namespace {

struct TopKRowsSchedule {
  int64_t threads, run; // of a block, items of each

  static llvm::ArrayRef<Field<TopKRowsSchedule>> fields() {
    static const Field<TopKRowsSchedule> kFields[] = {
        {"threads", &TopKRowsSchedule::threads, oneOf(32, 64, 128, 256, 512, 1024)},
        {"run", &TopKRowsSchedule::run, between(1, kLongestSortRun)},
    };
    return kFields;
  }
};

Result<> matchAny(const GroupQuery &in) {
  return matchAnchor(in, Op::TopK)
      .andThen([&] { return isUnbounded(in.form.anchorInputs[0]); })
      .andThen([&] { return fitsInt(in.form); });
}

Dim rowLength(const GroupForm &form) {
  return form.anchor->operand(0)->type().dim(unsigned(form.anchor->intAttr("axis")));
}

/// As runtime/cuda/topk/sorted.cuh makes them: of floats as f32.
int64_t largestKey(Element e) {
  return isFloat(e) ? UINT32_MAX : (int64_t(1) << std::max(bitWidth(e), 8u)) - 1;
}

/// A row may be shorter than its bound, no row longer.
SortedRows sortedRows(const GroupQuery &in) {
  const Type x = in.form.anchor->operand(0)->type();
  int64_t rows = 1;
  for (unsigned d = 0; d < x.rank(); ++d)
    if (int64_t(d) != in.form.anchor->intAttr("axis"))
      rows *= x.dim(d).upper();
  return {rows, rowLength(in.form).upper(), largestKey(x.element())};
}

struct SortedProblem {
  GroupQuery in;
  SortedRows rows;
};
Result<SortedProblem> readSorted(const GroupQuery &in) {
  return matchAny(in).andThen([&]() -> Result<SortedProblem> {
    if (bitWidth(in.form.anchor->operand(0)->type().element()) > 32)
      return Refusal{"the elements have more than 32 bits", ""};
    return SortedProblem{in, sortedRows(in)};
  });
}

/// Configuration, x, outs and ins; the arguments of the kernel that writes the results.
std::vector<std::string> emitOperands(const GroupQuery &in, StepWriter &out,
                                      const KeyValues &members = {}) {
  const GroupForm &form = in.form;
  const Operation &op = *form.anchor;
  const Type x = op.operand(0)->type();
  const AxisLast last = axisLast(x, unsigned(op.intAttr("axis")));
  llvm::SmallVector<Dim, 6> space = last.others;
  space.push_back(x.dim(last.axis));
  StepWriter::Config cfg(out, "config");
  cfg.extents("space", space).extent("k", op.dimsAttr("k")[0]);
  cfg.flag("largest", op.boolAttr("largest", true));
  for (const auto &[key, value] : members)
    cfg.number(key, value);
  const std::string config = cfg.finish();
  const std::string body = declareOperands(out, form, form.anchorInputs[0], last, last.placeOf);
  return {config, "x", "outs", "ins", body};
}

/// Of the tactic `topk`, microseconds but where something else stands.
struct TopKCosts {
  double start;      // beside the launch
  double element;    // each of a row, one batch after the other, for a thread
  double twice;      // by how much longer that takes a warp that has elements of two rows, a factor
  double efficiency; // comparisons of f32's peak where a multiprocessor has many
  static constexpr llvm::StringLiteral family = "topk";
};
constexpr TopKCosts kCosts = {
#include "codegen/cuda/topk/costs.inc"
};

struct TopK : PricedBy<kCosts> {
  static constexpr llvm::StringLiteral id = "topk",
                                       summary = "the largest elements along one dimension";
  using Problem = GroupQuery;
  using Schedule = NoSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    return matchAny(in).andThen([&]() -> Result<Problem> { return in; });
  }

  /// Every element is compared with its whole row, and however few the rows, a thread waits for one
  /// batch of a row after the other; a warp that has elements of two rows goes along both.
  static double microseconds(const Problem &in, const Schedule &, const TopKCosts &c) {
    constexpr int64_t kWarp = 32;
    const Type x = in.form.anchor->operand(0)->type();
    const double n = double(rowLength(in.form).upper()), elements = double(x.upperElements());
    const bool inTwoRows = elements > n && rowLength(in.form).upper() % kWarp != 0;
    Effort e;
    e.operations = elements * n * 4;
    e.efficiency = c.efficiency;
    e.blocks = elements / 128;
    e.launches = 0;
    return in.level.launchMicroseconds + c.start +
           std::max(n * c.element * (inTwoRows ? c.twice : 1), cuda::microseconds(in.level, e));
  }

  static void emit(const Problem &in, const Schedule &, StepWriter &out) {
    out.include("cuda/topk/kernel.cuh");
    launch(out, "topk", emitOperands(in, out));
  }
};

struct TopKSorted {
  static constexpr llvm::StringLiteral id = "topk_sorted",
                                       summary = "the largest elements of long rows, by a sort";
  using Problem = SortedProblem;
  using Schedule = NoSchedule;

  static Result<Problem> match(const GroupQuery &in) { return readSorted(in); }

  static double microseconds(const Problem &p, const Schedule &) {
    const auto &[in, s] = p;
    Effort own;
    own.bytes = double(s.items()) *
                (8 + double(bitWidth(in.form.anchor->operand(0)->type().element())) / 8);
    own.launches = 2;
    return cuda::microseconds(in.level, own) + sortMicroseconds(in.level, s);
  }
  static int64_t scratch(const Problem &p, const Schedule &) { return sortBytes(p.rows); }

  static void emit(const Problem &p, const Schedule &, StepWriter &out) {
    const auto &[in, s] = p;
    out.include("cuda/topk/sorted.cuh");
    std::vector<std::string> arguments = emitOperands(in, out);
    const std::string config = arguments[0];
    beginSort(out, s, "cuda::volume(" + config + ".space)");
    out.code().line("TENON_CHECK(to.launch<V>(cuda::topk_keys(" + config + ", x, sort)));");
    arguments.push_back(emitSort(out, in.level, s, "cuda::topk_length(" + config + ")"));
    launch(out, "topk_sorted", arguments);
  }
};

struct TopKRows {
  static constexpr llvm::StringLiteral id = "topk_rows",
                                       summary = "the largest elements of rows that a block sorts";
  using Problem = SortedProblem;
  using Schedule = TopKRowsSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    Result<Problem> p = readSorted(in);
    if (p && !sortBlock(in.level, p->rows.rows, p->rows.length))
      return Refusal{"a row is longer than what a block holds", ""};
    return p;
  }
  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    const SortBlock block = *sortBlock(p.in.level, p.rows.rows, p.rows.length);
    out.push_back({block.threads, block.run});
  }

  static Result<> legal(const Problem &p, const Schedule &s) {
    const ScheduleText text = printSchedule(id, s);
    if (s.threads * s.run < p.rows.length)
      return impossible(text,
                        "threads times run is at least a row, " + std::to_string(p.rows.length));
    return fitsMultiprocessor(p.in.level, text, {s.threads, s.run});
  }

  /// What a block does beside its sort is little.
  static double microseconds(const Problem &p, const Schedule &s) {
    return p.in.level.launchMicroseconds +
           sortBlockMicroseconds(p.in.level, p.rows.rows, {s.threads, s.run}, p.rows.largestKey);
  }

  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    out.include("cuda/topk/rows.cuh");
    launch(out, "topk_rows", emitOperands(p.in, out, membersOf(s)));
  }
};

struct TopKPartsSchedule {
  int64_t threads, run;           // of a block that sorts a part, items of each
  int64_t mergeThreads, mergeRun; // of one that sorts what is left of a row

  static llvm::ArrayRef<Field<TopKPartsSchedule>> fields() {
    static const Field<TopKPartsSchedule> kFields[] = {
        {"threads", &TopKPartsSchedule::threads, oneOf(32, 64, 128, 256, 512, 1024)},
        {"run", &TopKPartsSchedule::run, between(1, kLongestSortRun)},
        {"merge_threads", &TopKPartsSchedule::mergeThreads, oneOf(32, 64, 128, 256, 512, 1024)},
        {"merge_run", &TopKPartsSchedule::mergeRun, between(1, kLongestSortRun)},
    };
    return kFields;
  }
  int64_t length() const { return threads * run; } // of a part
};

struct TopKParts {
  static constexpr llvm::StringLiteral id = "topk_parts",
                                       summary = "the largest elements of few long rows, part by "
                                                 "part";
  using Problem = SortedProblem;
  using Schedule = TopKPartsSchedule;

  static int64_t partsOf(const Problem &p, const Schedule &s) {
    return int64_t(llvm::divideCeil(uint64_t(p.rows.length), uint64_t(s.length())));
  }
  /// Of a part.
  static int64_t kept(const Problem &p, const Schedule &s) {
    return std::min(p.in.form.anchor->dimsAttr("k")[0].upper(), s.length());
  }

  static Result<Problem> match(const GroupQuery &in) {
    Result<Problem> p = readSorted(in);
    if (!p)
      return p;
    std::vector<Schedule> schedules;
    candidates(*p, schedules);
    if (schedules.empty())
      return Refusal{"rows of one part, or more is left of their parts than a block holds", ""};
    return p;
  }
  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    for (int64_t length = 512; length <= 8192 && length < p.rows.length; length *= 2) {
      const int64_t parts = int64_t(llvm::divideCeil(uint64_t(p.rows.length), uint64_t(length)));
      const auto block = sortBlock(p.in.level, p.rows.rows * parts, length);
      if (!block || block->threads * block->run != length)
        continue;
      Schedule s{block->threads, block->run, 0, 0};
      const auto merge = sortBlock(p.in.level, p.rows.rows, parts * kept(p, s));
      if (!merge)
        continue;
      s.mergeThreads = merge->threads, s.mergeRun = merge->run;
      out.push_back(s);
    }
  }
  static Result<> legal(const Problem &p, const Schedule &s) {
    const ScheduleText text = printSchedule(id, s);
    if (s.mergeThreads * s.mergeRun < partsOf(p, s) * kept(p, s))
      return impossible(text, "merge_threads times merge_run is at least what the parts leave, " +
                                  std::to_string(partsOf(p, s) * kept(p, s)));
    return fitsMultiprocessor(p.in.level, text, {s.threads, s.run}).andThen([&] {
      return fitsMultiprocessor(p.in.level, text, {s.mergeThreads, s.mergeRun});
    });
  }

  static double microseconds(const Problem &p, const Schedule &s) {
    const int64_t key = p.in.form.anchorInputs[0].isPlainRead()
                            ? p.rows.largestKey >> spareBits(p.in.form.anchor->operand(0)->type())
                            : p.rows.largestKey;
    return sortBlockMicroseconds(p.in.level, p.rows.rows * partsOf(p, s), {s.threads, s.run}, key) +
           sortBlockMicroseconds(p.in.level, p.rows.rows, {s.mergeThreads, s.mergeRun}, key);
  }
  static int64_t scratch(const Problem &p, const Schedule &s) {
    return p.rows.rows * partsOf(p, s) * kept(p, s) * sort_geometry::item_bytes;
  }

  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    out.include("cuda/topk/parts.cuh");
    KeyValues members = membersOf(s);
    members.push_back({"kept", kept(p, s)});
    std::vector<std::string> arguments = emitOperands(p.in, out, members);
    out.code().line("auto *const left = " + out.scratchPointer("cuda::sort_item") + ";");
    out.code().line("TENON_CHECK(to.launch<V>(cuda::topk_parts(" + arguments[0] + ", x, left)));");
    arguments.push_back("static_cast<const cuda::sort_item *>(left)");
    launch(out, "topk_merge", arguments);
  }

private:
  /// As spare_bits of runtime/cuda/sort/ordered_key.cuh.
  static int spareBits(Type x) {
    return x.element() == Element::F16 ? 13 : x.element() == Element::BF16 ? 16 : 0;
  }
};

} // namespace

const Tactic &kTopKParts = kTacticOf<TopKParts>;
const Tactic &kTopK = kTacticOf<TopK>;
const Tactic &kTopKSorted = kTacticOf<TopKSorted>;
const Tactic &kTopKRows = kTacticOf<TopKRows>;

} // namespace tenon::cuda
