// Defines the tactics of floats times constant weights that stay integers of at most 8 bits, with a
// scale for each block along k: `matmul_narrow` (runtime/cpu/matmul_narrow.h), which widens the
// weights, and `matmul_narrow_bytes` (matmul_narrow_bytes.h), which rounds the floats to 8 bits
// where the model allows it.
#include "codegen/core/TacticOf.h"
#include "codegen/core/Work.h"
#include "codegen/cpu/matmul/Problem.h"
#include "codegen/cpu/shared/Operands.h"
#include "codegen/cpu/shared/Tile.h"

namespace tenon::cpu {
namespace {

constexpr int64_t kRowsAtOnce = 64;

struct NarrowProblem {
  GroupQuery in;
  MatMulProblem product;
  PackedNest nest;

  const Operation &op() const { return *in.form.anchor; }
  int64_t depth() const { return product.space[product.k].constant(); }
  int64_t columns() const { return product.space[product.n].constant(); }
  int64_t block() const { return op().intAttr("block"); }
  /// Weights in a byte.
  int64_t perByte() const { return 8 / bitWidth(op().operand(1)->type().element()); }
  int64_t rows() const {
    Dim rows = product.space[0].node()->context->dim(1);
    for (unsigned d = 0; d <= product.m; ++d)
      rows = rows * product.space[d];
    return rows.upper();
  }
  int64_t rowsAtOnce() const { return std::min(kRowsAtOnce, rows()); }
};

Result<NarrowProblem> narrowProblem(const GroupQuery &in) {
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
  return NarrowProblem{in, std::move(product), *std::move(nest)};
}

/// The call of a kernel, whose configuration begins with `cfg`; `scratch` is of this type.
void emitNarrow(const NarrowProblem &problem, llvm::StringRef kernel, llvm::StringRef scratch,
                llvm::function_ref<void(StepWriter::Config &)> schedule, StepWriter &out) {
  const GroupForm &form = problem.in.form;
  const Operation &op = problem.op();
  Context &c = op.result()->type().context();
  const MatMulProblem &p = problem.product;
  const PackedNest &nest = problem.nest;
  const ScalarProgram &a = form.anchorInputs[0];
  out.include("cpu/" + kernel.str() + ".h");
  StepWriter::Config cfg(out, "config", "cpu::" + kernel.str() + "_defaults");
  const auto extents = nest.extents(c);
  cfg.extent("batch0", extents[0]).extent("batch1", extents[1]).extent("m", extents[2]);
  cfg.extent("n", p.space[p.n]).extent("k", p.space[p.k]).extent("block", problem.block());
  schedule(cfg);
  cfg.number("rows_at_once", problem.rowsAtOnce());
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
  w.line("cpu::" + kernel.str() + "(" + config + ", a, " + constant(1) + ", " + constant(2) + ", " +
         (op.numOperands() > 3 ? constant(3) : "cpu::no_zero_points{}") + ", " +
         out.scratchPointer(scratch) + ", outs, ins, " + body + ", *f.workers);");
}

//===----------------------------------------------------------------------===//
// matmul_narrow
//===----------------------------------------------------------------------===//

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

struct Narrow {
  static constexpr llvm::StringLiteral id = "matmul_narrow",
                                       summary = "product of floats with weights of 2 to 8 bits, "
                                                 "scales by blocks";
  using Problem = NarrowProblem;
  using Schedule = NarrowSchedule;

  static Result<Problem> match(const GroupQuery &in) { return narrowProblem(in); }

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
    const double lanes = double(p.in.level.simdWidth) / double(lanesOf(p));
    const double tile = double(s.mr * s.nc);
    return w.flops / (p.in.level.peakGflops * 1e3) * lanes * (1 + 4 / double(s.mr) + 2 / tile) +
           double(w.bytes) / (p.in.level.bandwidthGBs * 1e3) * 0.2;
  }

  static int64_t scratch(const Problem &p, const Schedule &) {
    return p.rowsAtOnce() * p.depth() * 4;
  }

  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    emitNarrow(
        p, id, "float",
        [&](StepWriter::Config &cfg) {
          cfg.number("mr", s.mr).number("nc", s.nc).type("lanes", lanesType(lanesOf(p)));
        },
        out);
  }

private:
  /// Floats in a vector: whole vectors of bytes make up a block.
  static unsigned lanesOf(const Problem &p) {
    unsigned lanes = p.in.level.simdWidth;
    while (lanes > 1 && p.block() % (p.perByte() * lanes))
      lanes /= 2;
    return lanes;
  }
};

//===----------------------------------------------------------------------===//
// matmul_narrow_bytes
//===----------------------------------------------------------------------===//

struct NarrowBytes {
  static constexpr llvm::StringLiteral id = "matmul_narrow_bytes",
                                       summary = "the same of floats that may be rounded to 8 "
                                                 "bits, four products a lane";
  using Problem = NarrowProblem;
  using Schedule = RowSchedule;

  static Result<Problem> match(const GroupQuery &in) {
    auto p = narrowProblem(in);
    if (!p)
      return p;
    if (p->op().intAttr("a_bits", 0) != 8)
      return Refusal{"activations that the model does not allow to be rounded to 8 bits",
                     "accuracy level 4 of the model's MatMulNBits"};
    if (p->block() % (4 * p->perByte()) != 0 || p->block() % p->in.level.simdWidth != 0)
      return Refusal{"blocks that are no whole vectors", ""};
    if (p->block() > kLongestBlock)
      return Refusal{"sums of a block that may leave 32 bits", ""};
    return p;
  }

  /// Of each row the sums of a block, in 32 bits and in floats.
  static void candidates(const Problem &p, std::vector<Schedule> &out) {
    for (int64_t mr : {8, 4, 2, 1})
      if (mr == 1 || (mr <= p.rows() && 2 * mr + kOthers <= int64_t(p.in.level.simdRegisters)))
        out.push_back({mr});
  }

  /// Two products of 16 bits, as every machine of the level has them, take the time of one float
  /// multiply-add and an addition. A vector of weights is taken out of its bytes once for all rows;
  /// a block costs each row four instructions for its scales.
  static double microseconds(const Problem &p, const Schedule &s) {
    const Work w = workOf(*p.in.form.group);
    return w.flops / (p.in.level.peakGflops * 1e3) / 2 *
               (1 + 1.5 / double(s.mr) + 16 / double(p.block())) +
           double(w.bytes) / (p.in.level.bandwidthGBs * 1e3) * 0.2;
  }

  /// Panels of a vector's lanes: four bytes of each column, then of the next one.
  static void pack(const Problem &p, const Schedule &, llvm::SmallVectorImpl<Packing> &out) {
    Context &c = p.op().result()->type().context();
    const int64_t lanes = p.in.level.simdWidth, run = 4 * p.perByte();
    const LayoutAxis panels = {0, lanes, false, Dim(), 0}, columns = {0, lanes, true, Dim(), 0};
    for (unsigned i = 1; i < p.op().numOperands(); ++i) {
      const unsigned operand = p.in.form.anchorInputs[i].inputs[0].source->index();
      if (i == 1)
        out.push_back(
            {operand,
             Layout::get(c,
                         {panels, {1, run, false, Dim(), 0}, columns, {1, run, true, Dim(), 0}})});
      else
        out.push_back({operand, Layout::get(c, {panels, {1, 0, false, Dim(), 0}, columns})});
    }
  }

  /// As the kernel's narrow_rows_words.
  static int64_t scratch(const Problem &p, const Schedule &) {
    return p.rowsAtOnce() * (p.depth() / 2 + p.depth() / p.block() * 2 + 16) * 4;
  }

  static void emit(const Problem &p, const Schedule &s, StepWriter &out) {
    emitNarrow(
        p, id, "uint32_t", [&](StepWriter::Config &cfg) { cfg.number("mr", s.mr); }, out);
  }

private:
  /// 255 * 127 times so much is less than 2^31.
  static constexpr int64_t kLongestBlock = 1 << 16;
  static constexpr int64_t kOthers = 6; // registers of weights, masks and scales
};

} // namespace

const Tactic &kMatMulNarrow = kTacticOf<Narrow>;
const Tactic &kMatMulNarrowBytes = kTacticOf<NarrowBytes>;

} // namespace tenon::cpu
