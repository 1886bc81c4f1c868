// Defines the tactics `softmax`: normalised exponentials with a fused epilogue
// (runtime/cpu/softmax.h), and `softmax_bytes`: the same in integers (runtime/cpu/softmax_bytes.h).
#include "codegen/core/TacticOf.h"
#include "codegen/cpu/shared/Operands.h"
#include "codegen/forms/RowNest.h"

namespace tenon::cpu {
namespace {

/// Writes the views outs and ins.
void writeViews(const RowProblem &rows, StepWriter &out) {
  const GroupForm &form = rows.in.form;
  SourceWriter &w = out.code();
  w.line("const auto outs = " + out.outputs(form, rows.nest) + ";");
  w.line("const auto ins = " + inputsIn(out, form.body, rows.nest, rows.nest.placeOf) + ";");
}

struct Softmax {
  static constexpr llvm::StringLiteral id = "softmax", summary = "softmax along one dimension";
  using Problem = RowProblem;
  using Schedule = NoSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    return matchRows(in, Op::Softmax, /*atLeastOne=*/false);
  }

  static double microseconds(const Problem &p, const Schedule &) { return rooflineCost(p.in, 0.1); }

  static void emit(const Problem &p, const Schedule &, StepWriter &out) {
    const GroupForm &form = p.in.form;
    const Operation &op = *form.anchor;
    out.include("cpu/softmax.h");
    const std::string view =
        operandView(out, form.anchorInputs[0], p.nest, p.nest.placeOf, "prologue");
    const std::string body = out.body(form.body, {op.result()->type().element()});
    out.code().line("const auto x = " + view + ";");
    writeViews(p, out);
    out.code().line(std::string("cpu::softmax<") + (op.boolAttr("log") ? "true" : "false") + ">(" +
                    out.dims().list(p.nest.extents) + ", x, outs, ins, " + body + ", *f.workers);");
  }
};

struct SoftmaxBytes {
  static constexpr llvm::StringLiteral id = "softmax_bytes",
                                       summary = "softmax of 8-bit integers in integers";
  using Problem = RowProblem;
  using Schedule = NoSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    return matchAnchor(in, Op::QuantizedSoftmax).andThen([&]() -> Result<Problem> {
      if (!in.form.anchorInputs[0].isPlainRead())
        return Refusal{"an input that is not read as it lies", ""};
      return rowProblem(in, /*atLeastOne=*/false);
    });
  }

  static double microseconds(const Problem &p, const Schedule &) { return rooflineCost(p.in, 0.1); }

  static void emit(const Problem &p, const Schedule &, StepWriter &out) {
    const GroupForm &form = p.in.form;
    const Operation &op = *form.anchor;
    out.include("cpu/softmax_bytes.h");
    StepWriter::Config cfg(out, "config", "");
    for (const char *name : {"multiplier", "shift", "zero"})
      cfg.number(name, op.intAttr(name));
    const std::string config = cfg.finish();
    const std::string view =
        operandView(out, form.anchorInputs[0], p.nest, p.nest.placeOf, "prologue");
    const Element to = op.result()->type().element();
    const std::string body = out.body(form.body, {to});
    SourceWriter &w = out.code();
    w.line("const auto x = " + view + ";");
    writeViews(p, out);
    std::string table;
    for (int64_t v : op.intsAttr("table"))
      table += (table.empty() ? "" : ", ") + std::to_string(v);
    w.line("static constexpr uint32_t table[256] = {" + table + "};");
    w.line("cpu::softmax_bytes<" + cppElement(to).str() + ">(" + config + ", " +
           out.dims().list(p.nest.extents) + ", x, table, outs, ins, " + body + ", *f.workers);");
  }
};

} // namespace

const Tactic &kSoftmaxBytes = kTacticOf<SoftmaxBytes>;
const Tactic &kSoftmax = kTacticOf<Softmax>;

} // namespace tenon::cpu
