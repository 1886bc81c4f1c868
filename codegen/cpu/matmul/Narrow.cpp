// Defines the tactic `matmul_narrow`: floats times constant weights that stay integers of at most 8
// bits, with a scale for each block along k (runtime/cpu/matmul_narrow.h).
#include "codegen/core/TacticOf.h"
#include "codegen/core/Work.h"
#include "codegen/cpu/matmul/Problem.h"
#include "codegen/cpu/shared/Operands.h"

namespace tenon::cpu {
namespace {

constexpr int64_t kRowsAtOnce = 64;

struct NarrowSchedule {
  int64_t mr, nc; // rows and columns of a tile

  static llvm::ArrayRef<Field<NarrowSchedule>> fields() {
    static const Field<NarrowSchedule> kFields[] = {
        {"mr", &NarrowSchedule::mr, oneOf(1, 2, 4)},
        {"nc", &NarrowSchedule::nc, oneOf(2, 4)},
    };
    return kFields;
  }
};

struct NarrowProblem {
  GroupQuery in;
  MatMulProblem product;
  PackedNest nest;

  /// Floats in a vector: whole vectors of bytes make up a block.
  unsigned lanes() const {
    const Operation &op = *in.form.anchor;
    const int64_t perByte = 8 / bitWidth(op.operand(1)->type().element());
    unsigned lanes = in.level.simdWidth;
    while (lanes > 1 && op.intAttr("block") % (perByte * lanes))
      lanes /= 2;
    return lanes;
  }
  int64_t rows() const {
    Dim rows = product.space[0].node()->context->dim(1);
    for (unsigned d = 0; d <= product.m; ++d)
      rows = rows * product.space[d];
    return rows.upper();
  }
  int64_t rowsAtOnce() const { return std::min(kRowsAtOnce, rows()); }
};

struct Narrow {
  static constexpr llvm::StringLiteral id = "matmul_narrow",
                                       summary = "product of floats with weights of 2 to 8 bits, "
                                                 "scales by blocks";
  using Problem = NarrowProblem;
  using Schedule = NarrowSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    if (auto product = matchNarrowProduct(in); !product)
      return std::move(product).refusal();
    if (isFloat(in.form.anchor->operand(1)->type().element()))
      return Refusal{"weights that are floats of 8 bits", ""};
    const ScalarProgram &a = in.form.anchorInputs[0];
    if (auto unbounded = isUnbounded(a); !unbounded)
      return std::move(unbounded).refusal();
    if (a.usesIndex())
      return Refusal{"an operand is computed from its index", ""};
    MatMulProblem product(*in.form.anchor);
    auto nest = packedNest(in, product);
    if (!nest)
      return std::move(nest).refusal();
    return Problem{in, std::move(product), *std::move(nest)};
  }

  /// Sums, partial sums and elements of x live in registers.
  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    const Schedule tiles[] = {{1, 4}, {1, 2}, {2, 2}, {4, 2}};
    for (const Schedule &t : tiles)
      if (t.mr == 1 || (t.mr <= p.rows() && t.mr * t.nc * 3 <= int64_t(p.in.level.simdRegisters)))
        out.push_back(t);
  }

  /// A vector of weights is widened in about four instructions and multiplied once for every row.
  static double microseconds(const Problem &p, const Schedule &s) {
    const Work w = workOf(*p.in.form.group);
    const double lanes = double(p.in.level.simdWidth) / double(p.lanes());
    const double tile = double(s.mr * s.nc);
    return w.flops / (p.in.level.peakGflops * 1e3) * lanes * (1 + 4 / double(s.mr) + 2 / tile) +
           double(w.bytes) / (p.in.level.bandwidthGBs * 1e3) * 0.2;
  }

  static int64_t scratch(const Problem &p, const Schedule &) {
    return p.rowsAtOnce() * p.product.space[p.product.k].constant() * 4;
  }

  static void emit(const Problem &problem, const Schedule &s, StepWriter &out) {
    const GroupForm &form = problem.in.form;
    const Operation &op = *form.anchor;
    Context &c = op.result()->type().context();
    const MatMulProblem &p = problem.product;
    const PackedNest &nest = problem.nest;
    const ScalarProgram &a = form.anchorInputs[0];
    out.include("cpu/matmul_narrow.h");
    StepWriter::Config cfg(out, "config", "cpu::matmul_narrow_defaults");
    const auto extents = nest.extents(c);
    cfg.extent("batch0", extents[0]).extent("batch1", extents[1]).extent("m", extents[2]);
    cfg.extent("n", p.space[p.n]).extent("k", p.space[p.k]).extent("block", op.intAttr("block"));
    cfg.number("mr", s.mr).number("nc", s.nc);
    cfg.number("rows_at_once", problem.rowsAtOnce());
    cfg.type("lanes", lanesType(problem.lanes()));
    const std::string config = cfg.finish();

    auto overResult = [&](const Strides &x) { return nest(p.widen(x), p); };
    // a has no n, and k stands in its place.
    auto overOperand = [&](const Strides &x) {
      Strides wide = p.spread(0, x, a.space);
      wide.strides[p.n] = wide.strides[p.k];
      return nest(wide, p);
    };
    auto constant = [&](unsigned i) {
      return out.pointer(form.anchorInputs[i].inputs[0].source, c.dim(0));
    };
    SourceWriter &w = out.code();
    const std::string body = out.body(form.body, {op.result()->type().element()});
    w.line("const auto a = " + operandView(out, a, overOperand, nest.placeOf(p), "prologue") + ";");
    w.line("const auto outs = " + out.outputs(form, overResult) + ";");
    w.line("const auto ins = " + inputsIn(out, form.body, overResult, nest.placeOf(p)) + ";");
    w.line("cpu::matmul_narrow(" + config + ", a, " + constant(1) + ", " + constant(2) + ", " +
           (op.numOperands() > 3 ? constant(3) : "cpu::no_zero_points{}") + ", " +
           out.scratchPointer("float") + ", outs, ins, " + body + ", *f.workers);");
  }
};

} // namespace

const Tactic &kMatMulNarrow = kTacticOf<Narrow>;

} // namespace tenon::cpu
