// Defines the tactic `gemv`: a few rows times constant weights, one read of the weights being all
// the time there is (runtime/cuda/gemv/kernel.cuh): dense layers at batch 1, and convolutions of
// 1x1 over 1x1, as squeeze-and-excite has them.
#include "codegen/core/TacticOf.h"
#include "codegen/core/Work.h"
#include "codegen/cuda/shared/Contraction.h"

namespace tenon::cuda {
namespace {

constexpr int64_t kMaxRows = 8;

struct GemvSchedule {
  int64_t lanes, columns;

  static llvm::ArrayRef<Field<GemvSchedule>> fields() {
    static const Field<GemvSchedule> kFields[] = {
        {"lanes", &GemvSchedule::lanes, oneOf(32, 64, 128, 256)},
        {"columns", &GemvSchedule::columns, oneOf(1, 2, 4)},
    };
    return kFields;
  }
};

struct Gemv {
  static constexpr llvm::StringRef id = "gemv", summary = "a few rows times constant weights";
  using Problem = ContractionProblem;
  using Schedule = GemvSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    return readContraction(in, [&](const Contraction &c) -> Result<> {
      if (auto rows = multipliesRows(c); !rows)
        return rows;
      if (!rowsOf(c).isConstant() || c.rows() > kMaxRows || c.rows() < 1)
        return Refusal{"more than " + std::to_string(kMaxRows) + " rows", ""};
      if (!isFloat(c.b))
        return multipliesBytes(in, c);
      if (computeElement(in.form.anchor->operand(0)->type().element()) != Element::F32 ||
          computeElement(c.b) != Element::F32)
        return Refusal{"operands that are not computed in f32", ""};
      return Accepted{};
    });
  }

  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    for (int64_t lanes : {32, 64, 128, 256})
      for (int64_t columns : {1, 2, 4})
        if (columns * p.c.rows() <= 16) // sums live in registers
          out.push_back({lanes, columns});
  }

  static double microseconds(const Problem &p, const Schedule &s) {
    const Contraction &c = p.c;
    const double lanes = double(s.lanes), columns = double(s.columns);
    const double run = 128 / double(bitWidth(c.b));
    Effort e;
    e.blocks = std::ceil(double(c.columns()) / (256 / lanes * columns));
    // Each row of x is read again for every group of columns, from the first-level cache mostly.
    e.bytes = double(workOf(*p.in.form.group).bytes) * (1 + 0.1 * double(c.rows()) / columns);
    e.operations = 2 * double(c.rows() * c.columns() * c.depth());
    e.efficiency = 0.25;
    // What one thread waits for: its loads, some of them under way at a time, and the combining.
    const double waves = std::ceil(e.blocks / (6 * double(p.in.level.multiprocessors)));
    const double loads = std::ceil(double(c.depth()) / (lanes * run));
    // Each load of weights meets one of every row. A thread combines its sums one by one, through
    // shuffles and the warps' parts; the first fifty or so hide. Source:
    // bench/cuda/program/tuned_h200.csv.
    const double rows = double(c.rows()), combined = rows * columns * (5 + lanes / 32);
    const double latency = waves * ((0.15 + 0.03 * (rows - 1)) * loads + 0.05 * columns +
                                    (lanes > 32 ? 0.3 : 0) + 0.04 * std::max(0.0, combined - 52));
    return cuda::microseconds(p.in.level, e) + latency;
  }

  static void pack(const Problem &p, const Schedule &, llvm::SmallVectorImpl<Packing> &out) {
    packPaddedRows(p, out);
  }

  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    const GroupForm &form = p.in.form;
    const Operation &op = *form.anchor;
    const Contraction &c = p.c;
    Context &context = op.result()->type().context();
    const ScalarProgram &a = form.anchorInputs[0];
    const Access &b = form.anchorInputs[1].inputs[0];
    auto ofA = [&](const Strides &x) { return rowStrides(c, x, c.transA); };
    auto ofY = [&](const Strides &x) { return rowStrides(c, x); };

    out.include("cuda/gemv/kernel.cuh");
    StepWriter::Config cfg(out, "config");
    cfg.extent("m", rowsOf(c)).extent("n", context.dim(c.columns())).extent("k", c.depth());
    for (auto &[key, value] : membersOf(s))
      cfg.number(key, value);
    if (c.xZero)
      cfg.number("x_zero", c.xZero);
    const std::string config = cfg.finish();
    const std::string x = operandView(out, a, ofA, {0, 1}, "prologue");
    const std::string body = out.body(form.body, {op.result()->type().element()});
    SourceWriter &code = out.code();
    code.line("const auto x = " + x + ";");
    code.line("const auto outs = " + out.outputs(form, ofY) + ";");
    code.line("const auto ins = " + out.inputs(form.body, ofY) + ";");
    launch(out, "gemv", {config, "x", out.pointer(b.source, context.dim(0)), "outs", "ins", body});
  }
};

} // namespace

const Tactic &kGemv = kTacticOf<Gemv>;

} // namespace tenon::cuda
