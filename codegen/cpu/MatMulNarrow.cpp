// Defines the tactic `matmul_narrow`: floats times constant weights that stay integers of at most 8
// bits, with a scale for each block along k (runtime/cpu/matmul_narrow.h).
#include "codegen/cpu/Tactics.h"

#include "codegen/Work.h"
#include "codegen/cpu/MatMulProblem.h"
#include "codegen/cpu/Operands.h"

namespace tenon::cpu {
namespace {

constexpr int64_t kRowsAtOnce = 64;

/// Floats in a vector: whole vectors of bytes make up a block.
unsigned lanesOf(const TacticInput &in) {
  const Operation &op = *in.form.anchor;
  const int64_t perByte = 8 / bitWidth(op.operand(1)->type().element());
  unsigned lanes = in.level.simdWidth;
  while (lanes > 1 && op.intAttr("block") % (perByte * lanes))
    lanes /= 2;
  return lanes;
}

bool match(const TacticInput &in, std::string &why) {
  if (!matchNarrowProduct(in, why))
    return false;
  const GroupForm &f = in.form;
  if (!isUnbounded(f.anchorInputs[0], why))
    return false;
  if (f.anchorInputs[0].usesIndex()) {
    why = "an operand is computed from its index";
    return false;
  }
  return packedNest(in, MatMulProblem(*f.anchor), 1, why).hasValue();
}

Dim rowsOf(const TacticInput &in) {
  const MatMulProblem p(*in.form.anchor);
  Dim rows = p.space[0].node()->context->dim(1);
  for (unsigned d = 0; d <= p.m; ++d)
    rows = rows * p.space[d];
  return rows;
}

/// Tiles of rows by columns; sums, partial sums and elements of x live in registers.
void enumerate(const TacticInput &in, llvm::SmallVectorImpl<Schedule> &out) {
  const int64_t rows = rowsOf(in).upper();
  const std::pair<int64_t, int64_t> tiles[] = {{1, 4}, {1, 2}, {2, 2}, {4, 2}};
  for (auto [mr, nc] : tiles)
    if (mr == 1 || (mr <= rows && mr * nc * 3 <= int64_t(in.level.simdRegisters)))
      out.push_back({"matmul_narrow", {{"mr", mr}, {"nc", nc}}});
}

/// A vector of weights is widened in about four instructions and multiplied once for every row.
double cost(const TacticInput &in, const Schedule &s) {
  const Work w = workOf(*in.form.group);
  const double lanes = double(in.level.simdWidth) / double(lanesOf(in));
  const double tile = double(*s.get("mr") * *s.get("nc"));
  return w.flops / (in.level.peakGflops * 1e3) * lanes * (1 + 4 / double(*s.get("mr")) + 2 / tile) +
         double(w.bytes) / (in.level.bandwidthGBs * 1e3) * 0.2;
}

int64_t scratch(const TacticInput &in, const Schedule &) {
  const MatMulProblem p(*in.form.anchor);
  return std::min(kRowsAtOnce, rowsOf(in).upper()) * p.space[p.k].constant() * 4;
}

void emit(const TacticInput &in, const Schedule &s, StepWriter &out) {
  const GroupForm &form = in.form;
  const Operation &op = *form.anchor;
  Context &c = op.result()->type().context();
  const MatMulProblem p(op);
  std::string why;
  const PackedNest nest = *packedNest(in, p, 1, why);
  const ScalarProgram &a = form.anchorInputs[0];
  out.include("cpu/matmul_narrow.h");
  StepWriter::Config cfg(out, "config", "cpu::matmul_narrow_defaults");
  const auto extents = nest.extents(c);
  cfg.extent("batch0", extents[0]).extent("batch1", extents[1]).extent("m", extents[2]);
  cfg.extent("n", p.space[p.n]).extent("k", p.space[p.k]).extent("block", op.intAttr("block"));
  cfg.number("mr", *s.get("mr")).number("nc", *s.get("nc"));
  cfg.number("rows_at_once", std::min(kRowsAtOnce, rowsOf(in).upper()));
  cfg.type("lanes", lanesType(lanesOf(in)));
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

} // namespace

const Tactic kMatMulNarrow = {"matmul_narrow",
                              "product of floats with weights of 2 to 8 bits, scales by blocks",
                              match,
                              enumerate,
                              cost,
                              nullptr,
                              scratch,
                              emit};

} // namespace tenon::cpu
