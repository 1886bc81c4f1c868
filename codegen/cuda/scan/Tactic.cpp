// Defines the tactic `scan`: running folds along one dimension with a fused epilogue
// (runtime/cuda/scan/kernel.cuh).
#include "codegen/cuda/Tactics.h"

#include "codegen/core/TacticOf.h"
#include "codegen/core/Work.h"
#include "codegen/cuda/shared/Common.h"
#include "codegen/forms/Reduction.h"
#include "codegen/forms/RowNest.h"

#include <algorithm>

namespace tenon::cuda {
namespace {

struct ScanSchedule {
  int64_t lanes;  // of a line
  int64_t across; // neighbouring threads take neighbouring lines

  static llvm::ArrayRef<Field<ScanSchedule>> fields() {
    static const Field<ScanSchedule> kFields[] = {
        {"lanes", &ScanSchedule::lanes, oneOf(1, 2, 4, 8, 16, 32, 64, 128, 256)},
        {"across", &ScanSchedule::across, oneOf(0, 1)},
    };
    return kFields;
  }
};

constexpr int64_t kEach = 4; // elements of a thread at a time

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
  static Result<> legal(const Problem &, const Schedule &) { return Accepted{}; }

  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    const GroupForm &form = p.in.form;
    const Strides y = p.nest(stridesOf(form.outputs[0], unsigned(form.body.space.size())));
    const size_t last = p.nest.extents.size() - 1;
    const bool across = !y.strides[last].isConstant(1) && y.strides[last - 1].isConstant(1);
    int64_t lanes = 1;
    while (lanes < (across ? 32 : 256) && lanes * kEach < p.nest.rowLength())
      lanes *= 2;
    out.push_back({lanes, across});
  }

  static double microseconds(const Problem &p, const Schedule &s) {
    const Work w = workOf(*p.in.form.group);
    Effort e;
    e.bytes = double(w.bytes);
    e.operations = w.flops * 8;
    e.efficiency = 0.2;
    e.blocks = double(p.in.form.anchor->result()->type().upperElements()) /
               double(p.nest.rowLength()) * double(s.lanes) / 256;
    return cuda::microseconds(p.in.level, e);
  }

  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    const GroupForm &form = p.in.form;
    const RowNest &nest = p.nest;
    const Operation &op = *form.anchor;
    out.include("cuda/scan/kernel.cuh");
    StepWriter::Config cfg(out, "config");
    cfg.extents("space", nest.extents).flag("exclusive", op.boolAttr("exclusive"));
    cfg.flag("reverse", op.boolAttr("reverse"));
    cfg.number("lanes", s.lanes).flag("across", s.across);
    if (isLarge(form))
      cfg.flag("large", true);
    const std::string config = cfg.finish();
    const std::string x = operandView(out, form.anchorInputs[0], nest, nest.placeOf, "prologue");
    const std::string combine = writeScanCombiner(form, out);
    const std::string body = out.body(form.body, {op.result()->type().element()});
    SourceWriter &w = out.code();
    w.line("const auto x = " + x + ";");
    w.line("const auto outs = " + out.outputs(form, nest) + ";");
    w.line("const auto ins = " + inputsIn(out, form.body, nest, nest.placeOf) + ";");
    launch(out, "scan", {config, "x", combine, "outs", "ins", body});
  }
};

} // namespace

const Tactic &kScan = kTacticOf<Scan>;

} // namespace tenon::cuda
