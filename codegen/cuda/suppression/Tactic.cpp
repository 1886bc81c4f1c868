// Defines the tactics `non_max_suppression` and `non_max_suppression_sorted`: the best boxes that
// overlap little (runtime/cuda/suppression/kernel.cuh, runtime/cuda/suppression/sorted.cuh).
#include "codegen/core/TacticOf.h"
#include "codegen/core/Work.h"
#include "codegen/cuda/shared/Common.h"
#include "codegen/cuda/shared/Sort.h"

#include "llvm/Support/MathExtras.h"

#include <cmath>

namespace tenon::cuda {
namespace {

// As in runtime/cuda/non_max_suppression*.cuh.
constexpr int64_t kThreads = 256, kBoxBytes = 16;

/// Upper bounds.
struct Bounds {
  int64_t rows, boxes; // rows of scores, and how many stand in one
  int64_t taken;       // of a row
  /// Of a row, above the limit. How many a limit leaves is a guess: one in sixteen, and 64.
  double candidates;

  explicit Bounds(const Operation &op) {
    const llvm::ArrayRef<Dim> scores = op.operand(1)->type().shape();
    rows = scores[0].upper() * scores[1].upper();
    boxes = scores[2].upper();
    taken = std::min(op.dimsAttr("k")[0].upper(), boxes);
    const bool limited = op.floatAttr("score_threshold", -INFINITY) > -INFINITY;
    candidates = double(limited ? std::min(boxes, std::max<int64_t>(boxes / 16, 64)) : boxes);
  }
  double tiles() const { return std::ceil(candidates / kThreads); }
  SortedRows sorted() const { return {rows, boxes, UINT32_MAX}; }
};

struct SuppressionProblem {
  GroupQuery in;
  Bounds b;
};
Result<SuppressionProblem> read(const GroupQuery &in) {
  return matchAlone(in, Op::NonMaxSuppression)
      .andThen([&] { return fitsInt(in.form); })
      .andThen([&]() -> Result<SuppressionProblem> {
        return SuppressionProblem{in, Bounds(*in.form.anchor)};
      });
}

/// How often all multiprocessors are filled by `blocks` blocks.
double waves(const TargetLevel &level, double blocks) {
  return std::ceil(blocks / std::max(1.0, double(level.multiprocessors)));
}

double microsecondsOfBytes(const GroupQuery &in) {
  Effort e;
  e.bytes = double(workOf(*in.form.group).bytes);
  e.launches = 1;
  return microseconds(in.level, e);
}

/// Boxes, scores and y, the operands of all kernels, and the thresholds.
std::vector<std::string> emitOperands(const GroupQuery &in, StepWriter &out) {
  const Operation &op = *in.form.anchor;
  const llvm::ArrayRef<Dim> scores = op.operand(1)->type().shape();
  StepWriter::Config cfg(out, "config");
  cfg.extent("batch", scores[0]).extent("classes", scores[1]).extent("n", scores[2]);
  cfg.extent("k", op.dimsAttr("k")[0]).flag("center", op.boolAttr("center", false));
  const std::string config = cfg.finish();
  SourceWriter &w = out.code();
  w.line("const auto boxes = " + plainView(out, in.form.anchorInputs[0]) + ";");
  w.line("const auto scores = " + plainView(out, in.form.anchorInputs[1]) + ";");
  w.line("const auto y = " + resultView(out, in.form) + ";");
  auto number = [&](llvm::StringRef name, double otherwise) {
    return cppScalar(Element::F32, op.floatAttr(name, otherwise));
  };
  return {config,
          "boxes",
          "scores",
          "y",
          number("iou_threshold", 0),
          number("score_threshold", -INFINITY)};
}

int64_t sortScratch(const Bounds &b) {
  return int64_t(llvm::alignTo(uint64_t(sortBytes(b.sorted())), uint64_t(kBoxBytes)));
}

struct InRounds {
  static constexpr llvm::StringLiteral id = "non_max_suppression",
                                       summary = "the best boxes that overlap little, a round for "
                                                 "each";
  using Problem = SuppressionProblem;
  using Schedule = NoSchedule;

  static Result<Problem> match(const GroupQuery &in) { return read(in); }

  /// A round for each box that is taken. H200, `tenon bench --profile`: 16.8 microseconds a round
  /// with 8,400 boxes of which two thirds are candidates.
  static double microseconds(const Problem &p, const Schedule &) {
    const auto &[in, b] = p;
    const double rounds = std::min(double(b.taken), b.candidates);
    const double round = 2 + 0.6 * b.candidates / kThreads;
    return microsecondsOfBytes(in) + rounds * round * waves(in.level, double(b.rows));
  }
  static int64_t scratch(const Problem &p, const Schedule &) { return 4 * p.b.sorted().items(); }

  static void emit(const Problem &p, const Schedule &, StepWriter &out) {
    out.include("cuda/suppression/kernel.cuh");
    std::vector<std::string> arguments = emitOperands(p.in, out);
    arguments.push_back(out.scratchPointer("int"));
    launch(out, "non_max_suppression", arguments);
  }
};

struct BySort {
  static constexpr llvm::StringLiteral id = "non_max_suppression_sorted",
                                       summary = "the best boxes of many that overlap little, by "
                                                 "a sort";
  using Problem = SuppressionProblem;
  using Schedule = NoSchedule;

  static Result<Problem> match(const GroupQuery &in) { return read(in); }

  /// The tiles of a row wait for each other. Eight microseconds for one are an estimate: 256 boxes
  /// compared with as many, and a message from block to block.
  static double microseconds(const Problem &p, const Schedule &) {
    const auto &[in, b] = p;
    return microsecondsOfBytes(in) + sortMicroseconds(in.level, b.sorted()) +
           b.tiles() * 8 * waves(in.level, double(b.rows));
  }
  static int64_t scratch(const Problem &p, const Schedule &) {
    return sortScratch(p.b) + p.b.rows * p.b.taken * kBoxBytes + 4 * (1 + 2 * p.b.rows);
  }

  static void emit(const Problem &p, const Schedule &, StepWriter &out) {
    const auto &[in, b] = p;
    out.include("cuda/suppression/sorted.cuh");
    std::vector<std::string> arguments = emitOperands(in, out);
    const std::string config = arguments[0];
    beginSort(out, b.sorted(), "cuda::suppression_scores(" + config + ")");
    SourceWriter &w = out.code();
    w.line("const auto space = cuda::suppression_space::over(" +
           out.scratchPointer("unsigned char") + " + " + std::to_string(sortScratch(b)) + ", " +
           std::to_string(b.rows) + ", " + std::to_string(b.taken) + ");");
    arguments.push_back("space");
    std::string all;
    for (const std::string &argument : arguments)
      all += argument + ", ";
    w.line("TENON_CHECK(to.launch<V>(cuda::suppression_begin(" + all + "sort)));");
    arguments.push_back(
        emitSort(out, in.level, b.sorted(), "int(tenon::index_t(" + config + ".n))"));
    launch(out, "non_max_suppression_sorted", arguments);
  }
};

} // namespace

const Tactic &kNonMaxSuppression = kTacticOf<InRounds>;
const Tactic &kNonMaxSuppressionSorted = kTacticOf<BySort>;

} // namespace tenon::cuda
