// Defines the tactic `scan`: running folds along one dimension with a fused epilogue
// (runtime/cuda/scan/kernel.cuh).
#include "codegen/core/TacticOf.h"
#include "codegen/core/Work.h"
#include "codegen/cuda/shared/RowGroup.h"
#include "codegen/forms/ReductionForm.h"

#include <algorithm>
#include <cmath>

namespace tenon::cuda {
namespace {

constexpr int64_t kThreads = 256, kMostBlocks = 256; // of a block; of a line
constexpr int64_t kPartBytes = 16;                   // of the fold of a block's part

struct ScanSchedule {
  int64_t lanes;  // of a line, in a block
  int64_t across; // neighbouring threads take neighbouring lines
  int64_t each;   // elements of a thread's run
  int64_t blocks; // of a line

  static llvm::ArrayRef<Field<ScanSchedule>> fields() {
    static const Field<ScanSchedule> kFields[] = {
        {"lanes", &ScanSchedule::lanes, oneOf(1, 2, 4, 8, 16, 32, 64, 128, 256)},
        {"across", &ScanSchedule::across, oneOf(0, 1)},
        {"each", &ScanSchedule::each, oneOf(1, 2, 4, 8, 16), 4},
        {"blocks", &ScanSchedule::blocks, between(1, kMostBlocks), 1},
    };
    return kFields;
  }
};

struct Scan {
  static constexpr llvm::StringRef id = "scan", summary = "running folds along one dimension";
  using Problem = RowProblem;
  using Schedule = ScanSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    if (auto anchor = matchAnchor(in, Op::Scan); !anchor)
      return anchor.refusal();
    if (bitWidth(in.form.anchor->result()->type().element()) < 8)
      return Refusal{"elements of the result share bytes", ""};
    return matchRows(in, Op::Scan);
  }

  static Result<> legal(const Problem &, const Schedule &s) {
    if (s.blocks > 1 && s.blocks > s.lanes)
      return impossible(printSchedule(id, s), "a line's blocks are at most its lanes");
    return Accepted{};
  }

  /// As many lanes as leave each of them a run; a warp at most where lanes are apart in memory.
  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    const bool across = areNeighbours(p);
    const int64_t each = std::clamp<int64_t>(vectorLength(p.in.form), 4, 8), n = p.nest.rowLength();
    int64_t lanes = 1;
    while (lanes < (across ? 32 : kThreads) && lanes * each < n)
      lanes *= 2;
    out.push_back({lanes, across, each, 1});
    if (!across && lanes > 32)
      out.push_back({32, across, each, 1});
    // Several blocks a line while there are multiprocessors without one.
    const int64_t groups = ceilDiv(rowsOf(p), kThreads / lanes);
    for (int64_t blocks = 4; blocks <= lanes; blocks *= 2)
      if (groups * blocks <= 4 * int64_t(p.in.level.multiprocessors) && n >= blocks * lanes * each)
        out.push_back({lanes, across, each, blocks});
  }

  /// Runs of a thread one after the other; by several blocks, twice, in two launches.
  static double microseconds(const Problem &p, const Schedule &s) {
    constexpr double kRun = 0.55, kAcross = 0.9, kJoin = 2.0; // assumed
    const double sms = std::max(1u, p.in.level.multiprocessors);
    const double blocks = double(ceilDiv(rowsOf(p), kThreads / s.lanes) * s.blocks);
    const double runs = double(ceilDiv(p.nest.rowLength(), s.lanes * s.each * s.blocks));
    Effort e;
    e.bytes = double(workOf(*p.in.form.group).bytes) * (s.blocks > 1 ? 1.5 : 1);
    e.blocks = blocks;
    const double going =
        (s.blocks > 1 ? 2 : 1) * (s.across ? kAcross : kRun) * runs * std::ceil(blocks / (8 * sms));
    return cuda::microseconds(p.in.level, e) + going + (s.blocks > 1 ? kJoin : 0);
  }

  static int64_t scratch(const Problem &p, const Schedule &s) {
    return s.blocks > 1 ? rowsOf(p) * s.blocks * kPartBytes : 0;
  }

  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    const GroupForm &form = p.in.form;
    const Operation &op = *form.anchor;
    const RowNest &nest = p.nest;
    out.include("cuda/scan/kernel.cuh");
    StepWriter::Config cfg(out, "config");
    cfg.extents("space", nest.extents).flag("exclusive", op.boolAttr("exclusive"));
    cfg.flag("reverse", op.boolAttr("reverse"));
    cfg.number("lanes", s.lanes).flag("across", s.across).number("each", s.each);
    cfg.number("blocks", s.blocks).flag("whole", areRunsWhole(p, s.each, out));
    if (isLarge(form))
      cfg.flag("large", true);
    const std::string config = cfg.finish();
    const std::string combine = writeScanCombiner(form, out);
    const std::string body = declareOperands(out, form, form.anchorInputs[0], nest, nest.placeOf);
    std::vector<std::string> arguments = {config, "x", combine, "outs", "ins", body};
    if (s.blocks > 1) {
      launchParts(out, id, {config, "x", combine});
      arguments.push_back("parts");
    }
    launch(out, s.blocks > 1 ? "scan_joined" : "scan", arguments);
  }
};

} // namespace

const Tactic &kScan = kTacticOf<Scan>;

} // namespace tenon::cuda
