// Defines the tactics of operations whose results hang on data or shapes: `nonzero`, `topk` and
// `shape_of`.
#include "codegen/core/TacticOf.h"
#include "codegen/core/Work.h"
#include "codegen/cpu/shared/Operands.h"
#include "codegen/forms/AnchorForms.h"

#include <cmath>

namespace tenon::cpu {
namespace {

double costScalar(const GroupQuery &in) { return double(workOf(*in.form.group).bytes) / 1e3; }

struct NonZero {
  static constexpr llvm::StringLiteral id = "nonzero",
                                       summary = "indices of the elements other than zero";
  using Problem = GroupQuery;
  using Schedule = NoSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    if (auto anchor = matchAnchor(in, Op::NonZero); !anchor)
      return std::move(anchor).refusal();
    if (!in.form.anchorInputs[0].isPlainRead())
      return Refusal{"an operand computed in the group", ""};
    if (!in.form.bodyIsIdentity())
      return Refusal{"an epilogue over an extent that is not known yet", ""};
    return in;
  }

  static double microseconds(const Problem &p, const Schedule &) { return costScalar(p); }

  static void emit(const Problem &p, const Schedule &, StepWriter &out) {
    const GroupForm &form = p.form;
    const Operation &op = *form.anchor;
    const Type x = op.operand(0)->type();
    Context &c = x.context();
    const Dim found = op.result()->type().dim(1);
    out.include("cpu/nonzero.h");
    // Written with the pitch of the bound, then moved together: the extent is known only now.
    Strides rows;
    rows.offset = c.dim(0);
    rows.strides = {c.dim(found.upper()), c.dim(1)};
    const std::string data = out.resultPointer(0, c.dim(0));
    SourceWriter &w = out.code();
    w.line("int64_t found = 0;");
    w.line("cpu::nonzero(" + out.dims().list(x.shape()) + ", " +
           out.view(form.anchorInputs[0].inputs[0], x.rank()) + ", make_view(" + data + ", " +
           out.dims().list(rows.strides) + "), &found);");
    w.line("cpu::join_rows(" + data + ", " + std::to_string(x.rank()) + ", found, " +
           std::to_string(found.upper()) + ");");
    w.line("f.dims[" + std::to_string(out.dims().indexOf(found.symbol())) + "] = index_t(found);");
  }
};

struct TopK {
  static constexpr llvm::StringLiteral id = "topk",
                                       summary =
                                           "the largest elements along one dimension, by a heap";
  using Problem = GroupQuery;
  using Schedule = NoSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    return matchAnchor(in, Op::TopK)
        .andThen([&] { return isUnbounded(in.form.anchorInputs[0]); })
        .andThen([&] { return Result<Problem>(in); });
  }

  static int64_t scratch(const Problem &p, const Schedule &) {
    return p.form.anchor->dimsAttr("k")[0].upper() * 8; // one index_t each
  }

  static double microseconds(const Problem &p, const Schedule &) { return costScalar(p); }

  static void emit(const Problem &p, const Schedule &, StepWriter &out) {
    const GroupForm &form = p.form;
    const Operation &op = *form.anchor;
    const Type x = op.operand(0)->type();
    const AxisLast last = axisLast(x, unsigned(op.intAttr("axis")));
    out.include("cpu/topk.h");
    const std::string view = operandView(out, form.anchorInputs[0], last, last.placeOf, "prologue");
    const std::string body = out.body(form.body, {x.element(), Element::I64});
    SourceWriter &w = out.code();
    w.line("const auto x = " + view + ";");
    w.line("const auto outs = " + out.outputs(form, last) + ";");
    w.line("const auto ins = " + inputsIn(out, form.body, last, last.placeOf) + ";");
    w.line(std::string("cpu::topk<") + (op.boolAttr("largest", true) ? "true" : "false") + ">(" +
           out.dims().list(last.others) + ", " + single(out, x.dim(last.axis)) + ", " +
           single(out, op.dimsAttr("k")[0]) + ", x, outs, ins, " + body + ", " +
           out.scratchPointer("index_t") + ", *f.workers);");
  }
};

struct ShapeOf {
  static constexpr llvm::StringLiteral id = "shape_of", summary = "extents as values";
  using Problem = GroupQuery;
  using Schedule = NoSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    return matchShapeOf(in).andThen([&] { return Result<Problem>(in); });
  }

  static double microseconds(const Problem &p, const Schedule &) { return costScalar(p); }

  static void emit(const Problem &p, const Schedule &, StepWriter &out) {
    const GroupForm &form = p.form;
    std::string values;
    for (Dim d : form.anchor->operand(0)->type().shape())
      values += (values.empty() ? "" : ", ") + out.dims().value(d);
    out.include("cpu/map.h");
    const std::string body = out.body(form.body, {Element::I64});
    const std::string ins = out.inputs(form.body);
    SourceWriter &w = out.code();
    w.line("const int64_t shape[] = {" + values + "};");
    w.line("const auto outs = " + out.outputs(form) + ";");
    w.line("const auto ins = " + packWithFirst("make_view(shape, extents<1>{})", ins) + ";");
    w.line("cpu::map(" + out.dims().list(form.body.space) + ", outs, ins, " + body +
           ", *f.workers);");
  }
};

} // namespace

const Tactic &kNonZero = kTacticOf<NonZero>;
const Tactic &kTopK = kTacticOf<TopK>;
const Tactic &kShapeOf = kTacticOf<ShapeOf>;

} // namespace tenon::cpu
